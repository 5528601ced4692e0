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
	l := &allocationChecker{findings: x, h: h, owned: ownerships(h, x), since: map[history.Held]time.Time{}}
	for _, look := range h.Holdings {
		if look.Ended.Before(h.Log.Read) {
			l.leaks(look, c.Grace)
			l.losses(look)
		}
	}
	return x.all()
}

// allocationChecker compares successive listings of the allocator's holdings with the values that
// services have.
type allocationChecker struct {
	*findings
	h     *history.History
	owned map[history.Held]ownership
	// since is from when on something is held that no service has.
	since map[history.Held]time.Time
}

// leaks reports the values that have been held for longer than the grace without a service that has
// them.
func (l *allocationChecker) leaks(look history.Holdings, grace time.Duration) {
	before := l.since
	l.since = map[history.Held]time.Time{}
	for _, one := range look.Held {
		if l.owned[one].overlaps(look.Began, look.Ended) {
			continue
		}
		from, seen := before[one]
		if !seen {
			if from = l.owned[one].lastEnd(look.Began); from.IsZero() {
				from = look.Began
			}
		}
		l.since[one] = from
		if leaked := look.Began.Sub(from); leaked > grace && leaked > grace+l.h.Disturbed(from, look.Began, grace) {
			l.add(object.Key{Kind: "Service"}, "%s has been held for the UID %s for %s, and no such service has it", one.Value, one.UID, leaked.Round(time.Millisecond))
		}
	}
}

// losses reports the values that a service has and the allocator does not hold.
func (l *allocationChecker) losses(look history.Holdings) {
	held := map[history.Held]bool{}
	for _, one := range look.Held {
		held[one] = true
	}
	for one, o := range l.owned {
		if p := o.covering(look.Began, look.Ended); p != nil && !held[one] {
			l.add(p.key, "%s belongs to the service with the UID %s, and the allocator does not hold it: committed at %s, known at %s, asked at %s",
				one.Value, one.UID, clockTime(p.from), clockTime(p.known), clockTime(look.Began))
		}
	}
}

// clockTime returns a time of day as the calls of a failed run have it.
func clockTime(t time.Time) string { return t.Format("04:05.000") }

// ownership is the times in which a service had a value.
type ownership []period

type period struct {
	key   object.Key
	from  time.Time // committed at the earliest
	known time.Time // known to a client
	until time.Time // given up at the earliest; zero: not yet
	over  time.Time // known to be given up
}

// overlaps reports whether the service may have had the value at some moment between two times.
func (o ownership) overlaps(from, to time.Time) bool {
	return slices.ContainsFunc(o, func(p period) bool { return !p.from.After(to) && (p.until.IsZero() || !p.over.Before(from)) })
}

// covering returns the period in which the service surely had the value all the time between two
// times; nil: there is none.
func (o ownership) covering(from, to time.Time) *period {
	n := slices.IndexFunc(o, func(p period) bool { return !p.known.After(from) && (p.until.IsZero() || p.until.After(to)) })
	if n < 0 {
		return nil
	}
	return &o[n]
}

// lastEnd returns when the service last gave up the value before a time; zero: it never had it.
func (o ownership) lastEnd(before time.Time) time.Time {
	var last time.Time
	for _, p := range o {
		if !p.over.After(before) {
			last = later(last, p.over)
		}
	}
	return last
}

// ownerships returns which services had which values, and reports those that two had.
func ownerships(h *history.History, x *findings) map[history.Held]ownership {
	all := map[history.Held]ownership{}
	owners := map[string]object.Key{}
	take := func(key object.Key, one history.Held, revision uint64, p period) {
		if other, taken := owners[one.Value]; taken {
			x.add(key, "revision %d gives it %s, which %s has", revision, one.Value, other)
		}
		owners[one.Value] = key
		all[one] = append(all[one], p)
	}
	for key, o := range h.Log.Initial() {
		for _, one := range heldBy(o) {
			take(key, one, h.Log.Base, period{key: key})
		}
	}
	clock := clockOf(h)
	for s := range h.Log.Steps() {
		known := clock.known(s)
		before, after := heldBy(s.Old), heldBy(s.New)
		for _, one := range before {
			if !slices.Contains(after, one) {
				delete(owners, one.Value)
				last := &all[one][len(all[one])-1]
				last.until, last.over = s.Time, known
			}
		}
		for _, one := range after {
			if !slices.Contains(before, one) {
				take(s.Key, one, s.Revision, period{key: s.Key, from: s.Time, known: known})
			}
		}
	}
	return all
}

// heldBy returns the addresses and node ports of a service that the allocator gives out, each once.
func heldBy(o object.Object) []history.Held {
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
	var all []history.Held
	for _, value := range slices.Compact(values) {
		if value != "" && value != object.ClusterIPNone && value != "0" {
			all = append(all, history.Held{Value: value, UID: svc.GetMetadata().GetUid()})
		}
	}
	return all
}
