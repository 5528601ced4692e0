package check

import (
	"fmt"
	"slices"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/faults/history"
	"portolan.dev/services/object"
)

// Allocations checks that no two services have the same virtual IP, load-balancer address or node port at any
// revision, that the allocator releases values within the grace, and that it has allocated all values of services.
type Allocations struct {
	// Grace is how long a value may be allocated without a service that has it. It is the
	// allocator's own grace plus the interval of its checks.
	Grace time.Duration
	// Incomplete reports whether a list may lack values of services, because the allocator has lost its store and
	// may not have read them from the registry yet. Nil means that no list may.
	Incomplete func(h *history.History, list history.AllocationList) bool
}

// Name implements Checker.
func (Allocations) Name() string { return "allocations" }

// Check implements Checker.
func (c Allocations) Check(h *history.History) []Finding {
	x := &findings{check: c.Name()}
	checker := &allocationChecker{findings: x, h: h, ownerships: ownerships(h, x), unownedSince: map[history.Allocation]time.Time{}}
	for _, list := range h.AllocationLists {
		if list.Ended.Before(h.Log.ReadAt) {
			checker.checkLeaks(list, c.Grace)
			if c.Incomplete == nil || !c.Incomplete(h, list) {
				checker.checkMissing(list)
			}
		}
	}
	return x.all()
}

// allocationChecker compares successive lists of allocated values with the values that services
// have.
type allocationChecker struct {
	*findings
	h          *history.History
	ownerships map[history.Allocation]ownership
	// unownedSince has the times since which values are allocated without a service that has them.
	unownedSince map[history.Allocation]time.Time
}

// checkLeaks reports values that have been allocated for longer than the grace without a service
// that has them.
func (c *allocationChecker) checkLeaks(list history.AllocationList, grace time.Duration) {
	previous := c.unownedSince
	c.unownedSince = map[history.Allocation]time.Time{}
	for _, a := range list.Allocations {
		if c.ownerships[a].overlaps(list.Began, list.Ended) {
			continue
		}
		from, found := previous[a]
		if !found {
			if from = c.ownerships[a].lastRelease(list.Began); from.IsZero() {
				from = list.Began
			}
		}
		c.unownedSince[a] = from
		if leaked := list.Began.Sub(from); leaked > grace && leaked > grace+c.h.FaultDuration(from, list.Began, grace) {
			c.add(object.Key{Kind: "Service"}, "%s has been allocated to the UID %s for %s, and no such service has it", a.Value, a.UID, leaked.Round(time.Millisecond))
		}
	}
}

// checkMissing reports values that a service has and that the allocator could give to another: it has
// neither allocated them nor put them into a reserve.
func (c *allocationChecker) checkMissing(list history.AllocationList) {
	allocated := map[history.Allocation]bool{}
	for _, a := range list.Allocations {
		allocated[a] = true
	}
	atHand := map[string]bool{}
	for _, value := range list.AtHand {
		atHand[value] = true
	}
	for a, o := range c.ownerships {
		if p := o.covering(list.Began, list.Ended); p != nil && !allocated[a] && !atHand[a.Value] {
			c.add(p.key, "%s belongs to the service with the UID %s, but is not allocated: committed at %s, known at %s, listed at %s",
				a.Value, a.UID, formatTime(p.committed), formatTime(p.known), formatTime(list.Began))
		}
	}
}

// formatTime returns a time in the format of history.Call.String.
func formatTime(t time.Time) string { return t.Format("04:05.000") }

// ownership is the periods in which a service had a value.
type ownership []period

type period struct {
	key          object.Key
	committed    time.Time // earliest time of the commit
	known        time.Time // a client knew of it
	released     time.Time // earliest time of the release; zero if it is not released
	releaseKnown time.Time // a client knew of the release
}

// overlaps reports whether the service may have had the value at any time between two times.
func (o ownership) overlaps(from, to time.Time) bool {
	return slices.ContainsFunc(o, func(p period) bool {
		return !p.committed.After(to) && (p.released.IsZero() || !p.releaseKnown.Before(from))
	})
}

// covering returns the period in which the service certainly had the value during the whole time
// between two times, or nil if there is none.
func (o ownership) covering(from, to time.Time) *period {
	n := slices.IndexFunc(o, func(p period) bool { return !p.known.After(from) && (p.released.IsZero() || p.released.After(to)) })
	if n < 0 {
		return nil
	}
	return &o[n]
}

// lastRelease returns the time of the last release of the value before a time, or the zero time if
// there was none.
func (o ownership) lastRelease(before time.Time) time.Time {
	var last time.Time
	for _, p := range o {
		if !p.releaseKnown.After(before) {
			last = later(last, p.releaseKnown)
		}
	}
	return last
}

// ownerships returns the periods in which services had values, and reports values that two services
// had at the same time.
func ownerships(h *history.History, x *findings) map[history.Allocation]ownership {
	all := map[history.Allocation]ownership{}
	owners := map[string]object.Key{}
	acquire := func(key object.Key, a history.Allocation, revision uint64, p period) {
		if other, owned := owners[a.Value]; owned {
			x.add(key, "revision %d assigns %s, which %s has already", revision, a.Value, other)
		}
		owners[a.Value] = key
		all[a] = append(all[a], p)
	}
	for key, o := range h.Log.Initial() {
		for _, a := range allocationsOf(o) {
			acquire(key, a, h.Log.Base, period{key: key})
		}
	}
	cursor := newFirstKnownCursor(h)
	for s := range h.Log.Steps() {
		known := cursor.timeOf(s)
		before, after := allocationsOf(s.Old), allocationsOf(s.New)
		for _, a := range before {
			if !slices.Contains(after, a) {
				delete(owners, a.Value)
				last := &all[a][len(all[a])-1]
				last.released, last.releaseKnown = s.Time, known
			}
		}
		for _, a := range after {
			if !slices.Contains(before, a) {
				acquire(s.Key, a, s.Revision, period{key: s.Key, committed: s.Time, known: known})
			}
		}
	}
	return all
}

// allocationsOf returns the values of a service that the allocator allocates, each once.
func allocationsOf(o object.Object) []history.Allocation {
	svc, ok := o.(*corev1.Service)
	if !ok || svc.GetSpec().GetType() == corev1.ServiceType_SERVICE_TYPE_EXTERNAL_NAME {
		return nil
	}
	values := slices.Clone(svc.GetSpec().GetClusterIps())
	for _, p := range svc.GetSpec().GetPorts() {
		values = append(values, fmt.Sprint(p.GetNodePort()))
	}
	values = append(values, fmt.Sprint(svc.GetSpec().GetHealthCheckNodePort()))
	for _, ingress := range svc.GetStatus().GetLoadBalancer().GetIngress() {
		values = append(values, ingress.GetIp())
	}
	slices.Sort(values)
	var all []history.Allocation
	for _, value := range slices.Compact(values) {
		if value != "" && value != object.ClusterIPNone && value != "0" {
			all = append(all, history.Allocation{Value: value, UID: svc.GetMetadata().GetUid()})
		}
	}
	return all
}
