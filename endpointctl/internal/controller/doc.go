// Package controller keeps EndpointSlices and Endpoints in accordance with services and their pods.
//
// Every replica follows the registry, and the leader also writes. A change makes the affected
// services due. A sync computes and writes the slices of one service. It needs no memory of earlier
// syncs, so a new leader syncs every service and writes only the differences.
//
// Only the registry decides which endpoints are valid. If it refuses single endpoints of a write,
// the controller leaves these out, remembers them, and tries them again after a while. Checking
// them beforehand would save a refused call but would duplicate the registry's rules.
//
// The invariant is that each write names the version on which it is based and the epoch of the
// lease. A replica with an outdated view, or one that no longer leads, therefore cannot change
// anything.
package controller
