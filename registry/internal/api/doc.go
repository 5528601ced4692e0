// Package api implements the gRPC services of registry.v1.
//
// One implementation ([Objects]) serves all kinds. For each kind a gRPC service description is
// built at start from the descriptors of the API, and its handlers use the methods that the
// generated request types have in common. The invariant is that every kind in the API and in
// services/kinds is served completely, or the registry does not start.
//
// The alternative, generated server interfaces, would need an adapter for each kind and method,
// which would differ only in type names.
//
// # Bulk calls
//
// [Bulk] makes many writes in one call. It is a service of its own. More fields of ApplyService would
// have been one method less, but Apply is for operators and merges, while controllers create, update
// and delete with preconditions. If the permission depended on the fields of a request, the table of
// methods could not show it. Streams (one message for each write) were rejected: they share no decoding
// and no commit, and if a client stops half-way, it is unclear which writes the server shall make. All or
// nothing, like a transaction, was rejected too: one invalid object would hold up the thousand others,
// and allocated addresses cannot be rolled back by the store.
//
// An answer carries the status of each write in the fields of google.rpc.Status, so that clients
// treat it like the error of a single call.
package api
