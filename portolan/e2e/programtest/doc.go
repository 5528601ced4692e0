// Package programtest builds the programs of Portolan for the end-to-end tests.
//
// The package imports all that the programs consist of, so every test binary that imports it depends on their source, and go
// test runs the tests again after a change of any daemon. A hash of the source in an environment variable was the alternative:
// it would hold for `make test` alone, and not for a `go test` typed by hand.
package programtest
