package check

import (
	"fmt"
	"slices"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/faults/history"
	"portolan.dev/services/object"
)

// Allocations checks that at no revision two services have one address or node port, that the
// allocator gives out nothing for longer than the grace that no service has, and that it takes
// nothing from a service that has it.
type Allocations struct {
	// Grace is how long a value may be held that no service has: the allocator's own grace, and the
	// time until it looks.
	Grace time.Duration
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
			checker.checkMissing(list)
		}
	}
	return x.all()
}

// allocationChecker compares successive listings of the allocator's holdings with the values that
// services have.
type allocationChecker struct {
	*findings
	h          *history.History
	ownerships map[history.Allocation]ownership
	// since is from when on something is held that no service has.
	unownedSince map[history.Allocation]time.Time
}

// leaks reports the values that have been held for longer than the grace without a service that has
// them.
func (l *allocationChecker) checkLeaks(list history.AllocationList, grace time.Duration) {
	previous := l.unownedSince
	l.unownedSince = map[history.Allocation]time.Time{}
	for _, a := range list.Allocations {
		if l.ownerships[a].overlaps(list.Began, list.Ended) {
			continue
		}
		from, seen := previous[a]
		if !seen {
			if from = l.ownerships[a].lastRelease(list.Began); from.IsZero() {
				from = list.Began
			}
		}
		l.unownedSince[a] = from
		if leaked := list.Began.Sub(from); leaked > grace && leaked > grace+l.h.FaultDuration(from, list.Began, grace) {
			l.add(object.Key{Kind: "Service"}, "%s has been held for the UID %s for %s, and no such service has it", a.Value, a.UID, leaked.Round(time.Millisecond))
		}
	}
}

// losses reports the values that a service has and the allocator does not hold.
func (l *allocationChecker) checkMissing(list history.AllocationList) {
	held := map[history.Allocation]bool{}
	for _, a := range list.Allocations {
		held[a] = true
	}
	for a, o := range l.ownerships {
		if p := o.covering(list.Began, list.Ended); p != nil && !held[a] {
			l.add(p.key, "%s belongs to the service with the UID %s, and the allocator does not hold it: committed at %s, known at %s, asked at %s",
				a.Value, a.UID, formatTime(p.committed), formatTime(p.known), formatTime(list.Began))
		}
	}
}

// clockTime returns a time of day as the calls of a failed run have it.
func formatTime(t time.Time) string { return t.Format("04:05.000") }

// ownership is the times in which a service had a value.
type ownership []period

type period struct {
	key          object.Key
	committed    time.Time // committed at the earliest
	known        time.Time // known to a client
	released     time.Time // given up at the earliest; zero: not yet
	releaseKnown time.Time // known to be given up
}

// overlaps reports whether the service may have had the value at some moment between two times.
func (o ownership) overlaps(from, to time.Time) bool {
	return slices.ContainsFunc(o, func(p period) bool {
		return !p.committed.After(to) && (p.released.IsZero() || !p.releaseKnown.Before(from))
	})
}

// covering returns the period in which the service surely had the value all the time between two
// times; nil: there is none.
func (o ownership) covering(from, to time.Time) *period {
	n := slices.IndexFunc(o, func(p period) bool { return !p.known.After(from) && (p.released.IsZero() || p.released.After(to)) })
	if n < 0 {
		return nil
	}
	return &o[n]
}

// lastEnd returns when the service last gave up the value before a time; zero: it never had it.
func (o ownership) lastRelease(before time.Time) time.Time {
	var last time.Time
	for _, p := range o {
		if !p.releaseKnown.After(before) {
			last = later(last, p.releaseKnown)
		}
	}
	return last
}

// ownerships returns which services had which values, and reports those that two had.
func ownerships(h *history.History, x *findings) map[history.Allocation]ownership {
	all := map[history.Allocation]ownership{}
	owners := map[string]object.Key{}
	acquire := func(key object.Key, a history.Allocation, revision uint64, p period) {
		if other, owned := owners[a.Value]; owned {
			x.add(key, "revision %d gives it %s, which %s has", revision, a.Value, other)
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

// heldBy returns the addresses and node ports of a service that the allocator gives out, each once.
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
	slices.Sort(values)
	var all []history.Allocation
	for _, value := range slices.Compact(values) {
		if value != "" && value != object.ClusterIPNone && value != "0" {
			all = append(all, history.Allocation{Value: value, UID: svc.GetMetadata().GetUid()})
		}
	}
	return all
}
