// Package changestest provides a registry's log in memory, for tests of followers.
//
// [New] returns a log that is served over gRPC and, on demand, relayed to a real NATS server, so
// that a daemon can run against it as against a registry. [Feed] calls an Apply function directly
// and needs neither. It is enough for most tests of a daemon's reaction to changes.
//
// [Writes] and [Methods] make a registry of the log, which its clients can write to: for simulations, and for
// tests of controllers.
//
// The log follows the rules of the real one: revisions without gaps, consistent snapshots,
// OUT_OF_RANGE for pruned revisions and FAILED_PRECONDITION for another epoch. It does not default,
// validate or allocate. It stores objects as given, and sets only resource_version and, if empty,
// uid.
package changestest
