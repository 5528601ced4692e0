// Package contract compares the contract of this tree with the one that was released last. The
// descriptors of the latter are in testdata. A contract may only grow, so that daemons of the two
// versions understand each other (docs/operations.md, "Upgrade"). As a part of making a release,
// `go test ./api/contract -update` records the contract of the release. It fails if the tree
// breaks the previous contract.
//
// A contract that has not been released may still change: remove the file, and record it again.
//
// The rules are the ones of buf's category WIRE_JSON, and of FILE for names that other programs
// use. They are tested on the descriptors of the generated code. buf could check them too, but
// takes minutes to build, and `make test` would not include them.
package contract
