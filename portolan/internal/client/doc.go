// Package client is the registry as the command line sees it: its verbs, for every kind, without a switch over kinds.
//
// The registry has one gRPC service per kind, which is right for programs that know their kind and use the generated stubs. The command line
// does not know it before it has read its arguments, so calls are built from the contract's descriptors: method and message names follow one
// rule, which a test holds for every kind. A table of closures per kind and verb would be the alternative; it would have to grow with each.
//
// A collection is deleted by listing it and deleting each object under its UID, as kubectl does. An RPC for it would not be atomic
// either: it would hide the progress, go on after its caller has stopped, and need an entry in every kind's service. Deletions that
// are sent side by side share commits in the registry.
package client
