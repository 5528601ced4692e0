// Package nodewatch takes nodes out of service if their agents stop sending heartbeats.
//
// Every replica listens to heartbeats, and the leader, which is the holder of shard 0, writes. The
// invariant is that the silence of
// a node counts only while other nodes can be heard. A controller that hears no heartbeat at all is
// cut off itself, and changes no node. When it hears one again, the silence of every node counts
// from then.
//
// If more than half of the nodes in service are late at the same time, the network to them has more
// likely failed than the nodes. They stay in service until they are heard, or for at most four
// times the grace. The hold ends because half of a cluster can really fail. Without an end, a small
// cluster that loses two of three machines would send two thirds of its traffic to dead nodes.
//
// Only nodes that an agent has registered are watched, because a node that was written by hand
// sends no heartbeats.
package nodewatch
