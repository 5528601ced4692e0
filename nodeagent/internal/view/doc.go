// Package view holds the objects that the node agent works from: services with their
// EndpointSlices, the pods of its node, and the node itself.
//
// The view is indexed by service, so that the cost of a change is limited to its own service. It is
// also saved on disk, so that an agent that starts while the control plane is unavailable forwards
// according to the last known objects. The invariant: a view is either complete at one revision or
// empty. A file that is truncated, or of another node, is ignored (services/changes/viewfile).
//
// The follower (services/changes) holds the same objects, indexed by key. Both share them.
package view
