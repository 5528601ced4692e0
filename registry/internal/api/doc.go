// Package api implements the gRPC services of registry.v1.
//
// One implementation ([Objects]) serves all kinds. For each kind a gRPC service description is
// built at start from the descriptors of the API, and its handlers use the methods that the
// generated request types have in common. The invariant is that every kind in the API and in
// services/kinds is served completely, or the registry does not start.
//
// The alternative, generated server interfaces, would need an adapter for each kind and method,
// which would differ only in type names.
package api
