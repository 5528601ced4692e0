// Package changes carries the registry's log to everyone who follows it; it is the only place that knows NATS.
//
// A [Relay] beside the registry publishes the log to a JetStream stream in which the sequence of a message is the revision of its change. A
// [Follower] in each daemon subscribes to what the stream republishes, reads a snapshot from the registry over gRPC, and hands every change
// after it to the daemon, in order.
//
// The one invariant: a follower has applied either everything up to its revision, or nothing. A revision that did not come, came twice or
// comes from another incarnation of the log (another epoch) is never skipped and never guessed: it is read from the registry's log, and where
// the log no longer has it, from a new snapshot, of which only the difference to the view is handed over.
//
// NATS is transport, never the source of truth: the stream is a window that can be rebuilt from the log at any time, and a follower whose
// NATS is away reads the registry's log instead, only later. The alternative, durable consumers on a stream that keeps the last message per
// subject, makes "superseded", "pruned" and "lost" look alike, and is state in the NATS server for every agent.
//
// The package also carries the heartbeats of the node agents, which are told and forgotten.
package changes
