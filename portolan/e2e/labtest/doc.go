// Package labtest runs a whole installation of Portolan for tests: each daemon is a process of its own, each
// node is a network namespace, and a namespace in the middle, the hub, has the control plane and routes
// between the others.
//
// Main gives the test binary a network namespace of its own, which becomes the hub. So the daemons have their
// usual ports, whatever else runs on the machine, and nothing is left behind.
//
// The processes are the test binary itself, which Main turns into the daemon that an environment variable
// names. So the test binary imports the daemons, and go test knows that a result in its cache is stale after a
// change of one of them; a suite that runs go build would have to tell it. The processes are under the race
// detector if the test is.
package labtest
