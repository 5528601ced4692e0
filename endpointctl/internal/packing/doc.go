// Package packing turns a service and its pods into EndpointSlices and an Endpoints object.
// [SlicesFromPods], [EndpointsFromPods] and [SlicesFromEndpoints] compute the desired objects.
// [Pack] computes the fewest writes from the existing slices to the desired ones.
//
// The invariant is that after the writes every wanted endpoint is in exactly one slice of its
// address type and ports, and that no slice exceeds its bound. During the writes an endpoint that
// moves may be in two slices but is never in none. Consumers count each address once.
//
// What the registry admits as a service, pod or Endpoints, it admits as the slices and the Endpoints that are made
// from it, of any size. If it refuses the wanted slices for another reason, [Removals] and [EndpointsRemovals] give
// the writes that only take endpoints away.
//
// Slices with free space are not merged, because a merge costs every consumer a write and has no
// benefit. All functions are pure. Their arguments are shared with other callers and never changed.
// A [Memory] makes evaluating and packing the same service again cheaper, with the same results.
package packing
