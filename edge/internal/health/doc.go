// Package health determines which backends of a service's port can be used, in two ways.
//
// A Checker checks backends itself: it connects or sends a request at intervals (services/probe makes the
// attempts). A backend is usable at first, because its EndpointSlice says that it is ready.
// It is not usable after Settings.Unhealthy failures in a row, and usable again after
// Settings.Healthy successes in a row.
//
//	group := checker.NewGroup(func(backend netip.AddrPort, usable bool) { … })
//	group.Set(settings, backends)
//
// An Ejector watches the traffic of clients: a backend that fails several connections or requests in a row gets
// no new ones for some time. The layers call Success and Failure at the end of each connection or request.
//
// # Cost
//
// Groups with the same address and the same settings share one check, so a backend behind several listeners is
// checked once. One goroutine starts the checks when they are due, in the
// order of a heap, each in a goroutine that lives as long as the attempt. At most maxRunning attempts
// run at once. If more are due, because many backends do not answer at all, they are late, and a late
// check is no failure. A goroutine for each backend would need a stack and a timer for each while
// nothing happens. First checks are spread at random over firstWithin, and each interval varies by a
// tenth, so that backends that came at once are not asked at once forever.
package health
