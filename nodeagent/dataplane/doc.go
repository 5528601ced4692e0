// Package dataplane is the contract between the node agent and the data planes that forward its
// traffic.
//
// A Plane carries out steps (package plan) and returns those that failed. It makes no decisions
// about services, because the plan already has them. So a plane can be replaced without touching
// the other packages, and package dataplanetest checks with real traffic that all planes behave
// alike.
//
// Reconcile computes the steps from the plane's record of the changed keys to the plan, and
// compares the record with the plan afterwards. The alternative, to give the plane the whole
// desired state each time, would make every plane compute differences of its own, and a change
// would cost as much as the whole state.
package dataplane
