// Package events writes the Events of a daemon. A controller has a [Reporter], which writes an Event at once.
// A daemon of a node has a [Recorder], which writes Events on services and on the node in the background.
//
// The events of a recorder wait in a queue while the registry is unavailable, so that findings of a daemon that starts
// alone are reported later. The invariant: a caller never waits, neither for the registry nor for
// space in the queue. An event that does not fit is lost, but the daemon's status still has the
// finding.
package events
