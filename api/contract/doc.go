// Package contract compares the contract of this tree with the last released contract, which testdata
// has as descriptors. A contract may only grow, so that daemons of the two
// versions understand each other (docs/operations.md, "Upgrade"). As a part of making a release,
// `go test ./api/contract -update` records the contract of the release. It fails if the tree
// breaks the previous contract.
//
// A contract that has not been released may still change: remove the file, and record it again.
//
// The rules are buf's rules of the category WIRE_JSON, and of FILE for names that other programs use.
// They are tested on the descriptors of the generated code. buf itself takes minutes to build.
package contract
