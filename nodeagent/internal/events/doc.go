// Package events lists the reasons of the agent's Events. All are here, although other packages use
// them, because they are part of the agent's interface: users select events by reason.
package events
