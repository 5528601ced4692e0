// Package client is the registry as the command line sees it: its verbs, for every kind, without a switch over kinds.
//
// The registry has one gRPC service per kind, which is right for programs that know their kind and use the generated stubs. The command line
// does not know it before it has read its arguments, so calls are built from the contract's descriptors: method and message names follow one
// rule, which a test holds for every kind. A table of closures per kind and verb would be the alternative; it would have to grow with each.
package client
