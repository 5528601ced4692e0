// Package programtest builds the programs of Portolan for the end-to-end tests, and reads the commands
// in documents that these tests run.
//
// The package imports all packages of the programs, so every test binary that imports it depends on
// their source, and go test runs the tests again after a change of any daemon. The alternative, a
// hash of the source in an environment variable, would work for `make test` only, not for a plain
// `go test`.
package programtest
