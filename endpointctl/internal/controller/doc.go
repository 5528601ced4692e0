// Package controller keeps EndpointSlices and Endpoints as the services and
// their pods want them.
//
// Every replica follows the registry; the one that leads also writes. A change
// makes the services that it concerns due, and a sync brings one service's
// slices to what they should be, whatever happened before: it needs no memory,
// so a new leader begins by syncing every service and writes what differs.
//
// Which endpoints are valid is the registry's decision alone. If it refuses single endpoints of a
// write, the controller leaves these out, remembers them, and asks again after a while. Checking
// them here beforehand would save a refused call and repeat the registry's rules.
//
// The invariant: a write names the version that it is based on, and the epoch
// of the lease. Who works from an old view, or leads no more, changes nothing.
package controller
