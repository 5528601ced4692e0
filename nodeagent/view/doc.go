// Package view is what the node agent knows: services with their slices, the
// pods of its node, and the node itself.
//
// It is indexed by service, so that a change costs its own service only, and
// kept on disk, so that an agent that starts while the control plane is away
// forwards by what was last known. The invariant: a view is either all of one
// revision, or empty. A file that is cut off, or another node's, is as good as
// none (services/changes/viewfile).
//
// The follower (services/changes) has a view of its own, of every object by
// key; the objects here are the same ones, under other keys.
package view
