// Package dataplane is the contract between the node agent and what forwards
// its traffic.
//
// A Plane is given steps (package plan) and answers with those that failed. It
// never decides anything about services: what to forward where is settled
// before. So a plane can be replaced without touching the rest, and package
// dataplanetest holds any plane to the same behaviour by real traffic.
//
// Reconcile computes the steps, from the plane's record of the changed keys to
// what is wanted there, and compares the record afterwards. The alternative,
// handing a plane the whole desired state each time, makes every plane compute
// differences of its own, and cost what the state costs instead of what the
// change costs.
package dataplane
