// Package nodeview holds the objects from which a daemon on a node works: services with their
// EndpointSlices, the node itself, and objects of one further kind, such as the node's pods. The node
// agent and the edge share it.
//
// The view is indexed by service and marks the services that a change concerns, so that the cost of a
// change is limited to its own service. It is saved on disk (services/changes/viewfile), so that a
// daemon that starts while the registry is away works by the last known objects. The invariant: a view
// is either complete at one revision or empty.
//
// The follower (services/changes) holds the same objects, indexed by key. Both share them, and neither
// changes an object after it was stored.
package nodeview
