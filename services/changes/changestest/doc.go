// Package changestest is a registry's log in memory, for tests of everything that follows one.
//
// [New] gives a log that is served over gRPC and, on demand, relayed to a real NATS server, so that a daemon can be run against it as against
// a registry. [Feed] calls an Apply function directly and needs neither; most tests of what a daemon does with changes want no more.
//
// The log obeys the rules of the real one: revisions without gaps, consistent snapshots, OUT_OF_RANGE for what was pruned and
// FAILED_PRECONDITION for another epoch. It does not default, validate or allocate: objects are kept as they are put, except for
// resource_version, and uid where there is none.
package changestest
