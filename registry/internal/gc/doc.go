// Package gc removes objects that are no longer needed: objects after the removal of all their owners, the
// contents of a namespace that is being deleted, events beyond their age or number, and the part of
// the change log beyond its retention.
//
// It reads the view and writes like any client, on exactly the version that it examined. The
// invariant is that any number of replicas may collect at the same time, and each may stop at any
// point, and the same objects are removed. A single elected collector would avoid some lost races,
// but collection would stop whenever there is no leader.
package gc
