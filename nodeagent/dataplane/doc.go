// Package dataplane is the contract between the node agent and the data planes that forward its
// traffic.
//
// A Plane gets the wanted servers of the frontends that have changed, and returns the frontends that
// failed. It makes no decisions about services, because the plan contains them already. So a plane can be
// replaced without a change of other packages, and package dataplanetest checks with real traffic that all
// planes behave alike.
//
// The plane compares the wanted servers with its own record once, and decides on the steps. Reconcile
// compares the plane's record with the plan afterwards. One alternative was to pass a list of steps to the
// plane. The agent would compute the steps from the plane's record, and the plane would collect them by
// frontend and compare the result with its record again. The other alternative was to pass the whole desired
// state each time. Then a change would cost as much as the whole state.
package dataplane
