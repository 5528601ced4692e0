// Package dataplane is the contract between the node agent and the data planes that forward its
// traffic.
//
// A Plane is told the servers that are wanted at the frontends that have changed, and returns the
// frontends that failed. It makes no decisions about services, because the plan already has them. So
// a plane can be replaced without touching the other packages, and package dataplanetest checks with
// real traffic that all planes behave alike.
//
// The plane compares what is wanted with its own record, once, and decides on the steps. Reconcile
// compares the plane's record with the plan afterwards. One alternative was to give the plane a list
// of steps. The agent then computed the steps from the plane's record, and the plane collected them
// by frontend, to compare the result with its record again. The other alternative, to give the
// plane the whole desired state each time, would make a change cost as much as the whole state.
package dataplane
