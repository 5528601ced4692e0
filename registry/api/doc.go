// Package api answers the calls of registry.v1.
//
// The services of all kinds are one implementation ([Objects]): for each kind a gRPC service description is built at start from the contract's
// descriptors, and its handlers work on what the generated request types have in common. The invariant: a kind that is in the contract and in
// services/object is served completely, or the registry does not start.
//
// Generated server interfaces, one per kind, would need one adapter per kind and method that differ in nothing but type names.
package api
