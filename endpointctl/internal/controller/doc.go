// Package controller keeps EndpointSlices and Endpoints as the services and
// their pods want them.
//
// Every replica follows the registry; the one that leads also writes. A change
// makes the services that it concerns due, and a sync brings one service's
// slices to what they should be, whatever happened before: it needs no memory,
// so a new leader begins by syncing every service and writes what differs.
//
// The invariant: a write names the version that it is based on, and the epoch
// of the lease. Who works from an old view, or leads no more, changes nothing.
package controller
