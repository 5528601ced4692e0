// Package docker tests the registrar with containers of Docker's engine, up to the requests that clients
// send to a virtual IP. The registrar is a program of its own, which tests kill; the other daemons run in
// the process of the test, and their virtual IPs are in the loopback range.
package docker
