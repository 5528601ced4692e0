// Package nodewatch takes nodes out of service whose agents fall silent.
//
// Every replica listens to heartbeats; the one that leads writes. The invariant:
// silence counts only while others can be heard. A controller that hears nobody
// is cut off itself, and does nothing; when it hears somebody again, everybody's
// silence counts from then.
//
// If more than half of the nodes in service are late at the same time, the way to
// them is more likely gone than they are: they are held in service until they are
// heard of, or for four graces. The hold has an end, because half of a cluster can
// fail for real. A hold without an end was the alternative: a small cluster that
// loses two of three machines would send two thirds of its traffic to nobody.
//
// Only nodes are judged that an agent has registered: a node that somebody wrote
// by hand has no heartbeats to miss.
package nodewatch
