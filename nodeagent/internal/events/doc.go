// Package events writes the agent's Events on services and on its node.
//
// Events wait in a queue while the registry is unavailable, so that findings of an agent that
// starts alone are reported later. The invariant: a caller never waits, neither for the registry
// nor for space in the queue. An event that does not fit is lost, but the agent's status still has
// the finding.
//
// All reasons are listed here, although other packages use them, because they are part of the
// agent's interface: users select events by reason.
package events
