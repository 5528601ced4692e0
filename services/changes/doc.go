// Package changes transports the registry's log to all daemons that follow it. It is the only
// package that uses NATS subjects and streams.
//
// A [Relay] runs beside the registry and publishes the log to a JetStream stream. The sequence
// number of a message is the revision of its change. A [Follower] runs in each daemon. It
// subscribes to the messages that the stream republishes, reads a snapshot from the registry over
// gRPC, and passes every later change to the daemon, in order.
//
// The invariant: a follower has applied either all changes up to its revision, or none. A follower
// never skips or guesses a revision that is missing, arrives twice, or comes from another incarnation of
// the log (another epoch). It reads the revision from the registry's log. If the log no longer has it,
// the follower takes a new snapshot and passes on only the difference to its view.
//
// NATS is a transport, not the source of truth. The stream is a window that can be rebuilt from the
// log at any time, and a follower without NATS reads the registry's log instead, only later. The
// alternative, durable consumers on a stream that keeps the last message per subject, cannot tell
// superseded, pruned and lost messages apart, and keeps state in the NATS server for every agent.
//
// # Installations
//
// Two registries that are no replicas of each other may use one NATS server and one prefix by mistake. The
// stream's metadata therefore has the identity of the installation, and a relay leaves the stream of another
// installation alone (relay_owner.go). It reports the reason in the log, as a warning of the registry's health
// and as a metric.
//
// # Forged changes
//
// An attacker who takes over a NATS server can forge, alter, suppress and repeat messages. Therefore a
// follower uses a message without verification for a few seconds only. It keeps a digest over the changes
// that it took from NATS, and asks the registry over mutual TLS whether the digest of the same revisions
// in its log is equal ([Verifier]). The answer also has the log's head, which shows suppressed changes.
// If the digests differ, the follower reports it, makes its view equal to a snapshot, and for some
// minutes reads the registry's log and ignores NATS. It also reads the log if no registry has verified
// its changes for 30 s. The invariant: verified changes of a follower are equal to the registry's log, and
// unverified changes are younger than FollowerConfig.VerifyEvery, unless no registry answers.
//
// The digest covers the bytes of a message, so all replicas of the registry must have the same bytes for
// a revision ([LoggedChange]), and the relay sends these. For a message without payload the digest covers
// the fact of the change and the pod's node. The follower reads the contents from the registry anyway, and
// with a digest of them on the stream every node could test guesses of a password in another node's pod.
//
// Alternatives that were rejected: a running hash in the log would be made in the commit, in which
// all writers of all replicas would have to wait for one another, and it needs a column. A signature
// of each message costs a verification with a public key per message and follower, and the keys have
// to be distributed. With a MAC, every follower could forge. Verifying each batch before Apply would
// add a request to the delay of each change and to the load of the registry.
//
// # Revocations
//
// A follower also follows the kind Revocation, for the list of denied certificates of its process.
// Revocations are on the same stream as other objects, and arrive without NATS too. The follower reads
// these changes from the registry's log even if NATS delivers them, because a forged revocation of the
// registries' certificates would keep the follower from asking the registries whether it is true.
//
// The package also carries the heartbeats of the node agents, which are sent at most once and are
// not stored.
package changes
