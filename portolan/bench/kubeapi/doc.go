// Package kubeapi measures the API of Kubernetes beside the registry's own, with the daemons as built,
// each in a process of its own: lists of 10,000 services, the start of client-go's informers, and 1,000
// watchers at 500 changes a second. `make bench-kubeapi` runs it. Its last lines have the form `ratio
// <name> <value> (<target>)`.
//
// It consists of tests because client-go is for tests only. Without -measure they are skipped, and
// times never make them fail.
//
// The invariant is that the numbers of a ratio were measured in turns in the same run. All connections
// are without TLS, so that its cost, which is the same for both APIs, does not hide the difference.
package kubeapi
