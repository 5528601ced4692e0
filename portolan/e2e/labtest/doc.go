// Package labtest runs a whole installation of Portolan for tests. Each daemon is a process of its
// own, and each node is a network namespace. A namespace in the middle, the hub, has the control
// plane and routes between the others.
//
// Main gives the test binary its own network namespace, which becomes the hub. The daemons can
// therefore use their default ports, even if programs of the machine use the same ones, and nothing is left
// behind.
//
// The processes are the test binary itself, which Main turns into the daemon named by an
// environment variable. The test binary thus imports the daemons, and go test notices that a cached
// result is stale after a change of one of them. A suite that runs go build would have to declare
// that dependency. The processes run under the race detector if the test does.
package labtest
