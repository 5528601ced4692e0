// Package health determines which backends of a service's port can be used, in two ways.
//
// A Checker asks backends actively: it connects, or sends a request, in intervals (services/probe
// makes the attempts). A backend is usable at first, because its EndpointSlice says that it is ready.
// It is not usable after Settings.Unhealthy failures in a row, and usable again after
// Settings.Healthy successes in a row.
//
//	group := checker.NewGroup(func(backend netip.AddrPort, usable bool) { … })
//	group.Set(settings, backends)
//
// An Ejector draws conclusions from traffic: a backend that fails several connections or requests in
// a row gets no more for some time. Its connections and requests are told to it by their callers, by
// Success and Failure.
//
// # Cost
//
// Groups that want the same address checked with the same settings share one check, so a backend
// behind several listeners is asked once. One goroutine starts the checks when they are due, in the
// order of a heap, each in a goroutine that lives as long as the attempt. At most maxRunning attempts
// run at once. If more are due, because many backends do not answer at all, they are late, and a late
// check is no failure. A goroutine for each backend would need a stack and a timer for each while
// nothing happens. First checks are spread at random over firstWithin, and each interval varies by a
// tenth, so that backends that came at once are not asked at once forever.
package health
