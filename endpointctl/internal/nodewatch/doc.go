// Package nodewatch takes nodes out of service whose agents fall silent.
//
// Every replica listens to heartbeats; the one that leads writes. The invariant:
// silence counts only while others can be heard. A controller that hears nobody
// is cut off itself, and does nothing; when it hears somebody again, everybody's
// silence counts from then.
//
// Only nodes are judged that an agent has registered: a node that somebody wrote
// by hand has no heartbeats to miss.
package nodewatch
