// Package contract holds the contract of this tree to the one that was released last, whose descriptors are in testdata: it may only grow, so that
// daemons of the two versions understand each other (docs/operations.md, "Upgrade"). `go test ./proto/contract -update` records the contract of a
// release, as a part of making it, and refuses where the tree does not keep the one before.
// What nobody has released yet may still change: remove the file, and record it anew.
//
// The rules are those of buf's category WIRE_JSON, and of FILE for names that programs of others see. They are tested on descriptors, which the
// generated code has anyway, instead of by buf, which takes minutes to build and would leave `make test` without them.
package contract
