// Package changes transports the registry's log to all daemons that follow it. It is the only
// package that uses NATS subjects and streams.
//
// A [Relay] runs beside the registry and publishes the log to a JetStream stream. The sequence
// number of a message is the revision of its change. A [Follower] runs in each daemon. It
// subscribes to the messages that the stream republishes, reads a snapshot from the registry over
// gRPC, and passes every later change to the daemon, in order.
//
// The invariant: a follower has applied either everything up to its revision, or nothing. A
// revision that is missing, arrives twice, or comes from another incarnation of the log (another
// epoch) is never skipped and never guessed. The follower reads it from the registry's log. If the
// log no longer has it, the follower takes a new snapshot and passes on only the difference to its
// view.
//
// NATS is a transport, not the source of truth. The stream is a window that can be rebuilt from the
// log at any time, and a follower without NATS reads the registry's log instead, only later. The
// alternative, durable consumers on a stream that keeps the last message per subject, cannot tell
// superseded, pruned and lost messages apart, and keeps state in the NATS server for every agent.
//
// The package also carries the heartbeats of the node agents, which are sent at most once and are
// not stored.
package changes
