// Package client is a client of the registry for code that learns the kind of an object at run time: the
// command line, and package applyset. It has the registry's verbs for every kind, without a switch over
// kinds.
//
// The registry has one gRPC service per kind, which suits programs that use the generated stubs of
// fixed kinds. This package builds calls from the API's descriptors instead: the names of methods
// and messages follow one rule, which a test checks for every kind. The alternative, a table of
// closures per kind and verb, would have to grow with each kind.
//
// A collection is deleted by listing it and deleting each object under its UID, as kubectl does. An
// RPC for it would not be atomic either. It would also hide the progress, continue after its caller
// has stopped, and need an entry in every kind's service. Concurrent deletions share commits in the
// registry.
package client
