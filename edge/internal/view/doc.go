// Package view holds the objects that an edge works from: the services of its class, the
// EndpointSlices, the secrets with certificates, and its own node, of which it needs the zone.
//
// It marks the services that a change concerns, so that the work for a change is that of its own
// services. It is saved on disk, so that an edge that starts while the registry is away serves what
// it knew last. The invariant: a view is either complete at one revision or empty.
package view
