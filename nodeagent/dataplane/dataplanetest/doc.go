// Package dataplanetest checks with real traffic that data planes fulfil their contract.
//
// Run runs every scenario on a rig. A rig has a plane, can start backends behind it, and can
// connect clients through it, from a pod, from the node and from outside. The declared differences
// between planes are data (Traits), not skipped tests.
//
// Scenarios are data too: the programmed servers, the clients that connect, and the backends that
// must answer. So they read like the contract, and a rig with another kernel or on another machine
// runs the same scenarios.
package dataplanetest
