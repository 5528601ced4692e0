// Package packing turns a service and its pods into EndpointSlices and an
// Endpoints: what they should be ([Want], [Legacy], [Mirror]) and the fewest
// writes that get there from what exists ([Pack]).
//
// The one invariant: after the writes every wanted endpoint is in exactly one
// slice of its address type and ports, and no slice has more than it may. In
// between, an endpoint that moves may be in two, and is never in none: consumers
// take each address once.
//
// Slices that have room are not merged: a merge costs a write to every consumer
// and buys nothing. Everything here is a pure function; objects that come in are
// shared with others and never changed.
package packing
