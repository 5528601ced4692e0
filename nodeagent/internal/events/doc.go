// Package events lists the reasons of the agent's Events in one place, because they are part of the agent's
// interface: users select events by reason.
package events
