package book

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"

	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// Want is a requested claim.
type Want struct {
	Slot   string
	Use    allocatorv1.Use
	Family corev1.IPFamily
	Value  string // exactly this value; empty: any
	Pool   string // only from this pool; empty: any
	// Repair allows a value that an object already has to come from a retired pool.
	Repair bool
}

// Failure is the reason why a claim could not be served.
type Failure struct {
	Slot    string
	Use     allocatorv1.Use
	Pool    string // the pool that was tried, if any
	Reason  allocatorv1.FailureReason
	Message string
}

// Got is a value that was allocated for a claim.
type Got struct {
	Value  pool.Value
	Pool   string
	Use    allocatorv1.Use
	Static bool // the value was requested explicitly
	New    bool // the owner did not have it before
}

// Allocate serves all wants of an owner, or none. If any want fails, it returns the failures.
func (b *Book) Allocate(now time.Time, owner store.Owner, wants []Want, c *Change) ([]Got, []Failure) {
	mark := c.Mark()
	got := make([]Got, 0, len(wants))
	var failures []Failure
	seen := make(map[string]bool, len(wants))
	for _, w := range wants {
		g, f := b.serve(now, owner, w, seen, c)
		if f != nil {
			f.Slot, f.Use = w.Slot, w.Use
			failures = append(failures, *f)
			continue
		}
		got = append(got, g)
	}
	if len(failures) > 0 {
		c.Rollback(mark)
		return nil, failures
	}
	return got, nil
}

func (b *Book) serve(now time.Time, owner store.Owner, w Want, seen map[string]bool, c *Change) (Got, *Failure) {
	switch {
	case owner.UID == "":
		return Got{}, invalid("owner.uid is required")
	case w.Slot == "":
		return Got{}, invalid("slot is required")
	case seen[w.Slot]:
		return Got{}, invalid("slot %q appears twice", w.Slot)
	case w.Use == allocatorv1.Use_USE_UNSPECIFIED:
		return Got{}, invalid("use is required")
	}
	seen[w.Slot] = true
	if w.Value == "" {
		return b.serveAny(now, owner, w, c)
	}
	return b.serveExact(now, owner, w, c)
}

// serveAny returns the value that the slot already has, or allocates a free one.
func (b *Book) serveAny(now time.Time, owner store.Owner, w Want, c *Change) (Got, *Failure) {
	if has := b.owners[owner.UID][w.Slot]; len(has) > 0 {
		h := has[len(has)-1].of
		e := b.pool(h.pool)
		if e.Use != w.Use {
			return Got{}, invalid("slot %q has %s, which is for %s", w.Slot, h.value, useName(e.Use))
		}
		b.hold(now, owner, w.Slot, h, c)
		return Got{Value: h.value, Pool: e.Name, Use: e.Use}, nil
	}
	pools := b.candidates(w)
	if len(pools) == 0 {
		return Got{}, b.noPool(w)
	}
	e, v, found := b.pick(now, pools)
	if !found {
		return Got{}, &Failure{Pool: pools[0].Name, Reason: allocatorv1.FailureReason_FAILURE_REASON_FULL, Message: "range is full: " + ranges(pools)}
	}
	b.hold(now, owner, w.Slot, b.take(owner, e, v, c), c)
	return Got{Value: v, Pool: e.Name, Use: e.Use, New: true}, nil
}

// pick returns a value of the best class that any pool has.
func (b *Book) pick(now time.Time, pools []*entry) (best *entry, value pool.Value, found bool) {
	var class pool.Class
	for _, e := range pools {
		if e.State != allocatorv1.PoolState_POOL_STATE_ACTIVE {
			continue
		}
		v, c, err := e.values.Pick(now)
		if err != nil || found && c >= class {
			continue
		}
		best, value, class, found = e, v, c, true
		if c == pool.Upper {
			break
		}
	}
	return best, value, found
}

// serveExact allocates the requested value.
func (b *Book) serveExact(now time.Time, owner store.Owner, w Want, c *Change) (Got, *Failure) {
	v, err := parse(w)
	if err != nil {
		return Got{}, invalid("%v", err)
	}
	pools := b.candidates(w)
	for _, e := range pools {
		if _, ok := e.values.Space().Index(v); !ok {
			continue
		}
		return b.serveFrom(now, owner, w, e, v, c)
	}
	return Got{}, &Failure{
		Reason: allocatorv1.FailureReason_FAILURE_REASON_NOT_IN_RANGE,
		Message: fmt.Sprintf("provided %s is not in the valid range. The range of valid %ss is %s",
			valueName(w.Use), valueName(w.Use), ranges(pools)),
	}
}

func (b *Book) serveFrom(now time.Time, owner store.Owner, w Want, e *entry, v pool.Value, c *Change) (Got, *Failure) {
	got := Got{Value: v, Pool: e.Name, Use: e.Use, Static: true}
	h := b.values[v]
	switch {
	case h != nil && h.owner.UID != owner.UID:
		return Got{}, &Failure{Pool: e.Name, Reason: allocatorv1.FailureReason_FAILURE_REASON_ALLOCATED, Message: "provided " + valueName(w.Use) + " is already allocated"}
	case h == nil && e.State == allocatorv1.PoolState_POOL_STATE_RETIRED && !w.Repair:
		return Got{}, &Failure{Pool: e.Name, Reason: allocatorv1.FailureReason_FAILURE_REASON_NOT_IN_RANGE, Message: fmt.Sprintf("provided %s is of pool %q, which is retired", valueName(w.Use), e.Name)}
	case h == nil:
		h = b.take(owner, e, v, c)
		got.New = true
	}
	b.supersede(now, owner, w.Slot, v, c)
	b.hold(now, owner, w.Slot, h, c)
	return got, nil
}

// supersede drops unconfirmed claims of the slot on other values, because another value is
// requested now.
func (b *Book) supersede(now time.Time, owner store.Owner, slot string, v pool.Value, c *Change) {
	for _, has := range slices.Clone(b.owners[owner.UID][slot]) {
		if !has.confirmed && has.of.value != v {
			b.drop(now, has, c)
		}
	}
}

// take allocates a free value to the owner.
func (b *Book) take(owner store.Owner, e *entry, v pool.Value, c *Change) *holding {
	since, rested := e.values.RestsSince(v)
	if err := e.values.Take(v); err != nil {
		panic(fmt.Sprintf("book: %s is in no holding and not free: %v", v, err))
	}
	h := &holding{value: v, pool: e.Name, owner: owner}
	b.values[v] = h
	c.add(step{of: h, fresh: true, undo: func() {
		delete(b.values, v)
		e.values.Free(v)
		if rested && e.values.Take(v) == nil {
			e.values.Release(v, since)
		}
	}})
	return h
}

// hold adds a claim of the slot to the holding, or renews its existing claim.
func (b *Book) hold(now time.Time, owner store.Owner, slot string, h *holding, c *Change) {
	if has := b.claim(owner.UID, slot, h.value); has != nil {
		if has.confirmed {
			return
		}
		before := has.since
		has.since = now
		c.add(step{of: h, undo: func() { has.since = before }})
		return
	}
	fresh := &claim{slot: slot, of: h, since: now}
	b.link(fresh)
	c.add(step{of: h, undo: func() { b.unlink(fresh) }})
}

// candidates returns the pools that a claim may be served from.
func (b *Book) candidates(w Want) []*entry {
	var fit []*entry
	for _, e := range b.pools {
		if e.Use == w.Use && (w.Pool == "" || w.Pool == e.Name) && familyFits(e.values.Space(), w.Family) {
			fit = append(fit, e)
		}
	}
	return fit
}

func (b *Book) noPool(w Want) *Failure {
	if w.Pool != "" {
		return invalid("pool %q does not exist or is not for %s", w.Pool, useName(w.Use))
	}
	return &Failure{Reason: allocatorv1.FailureReason_FAILURE_REASON_FULL, Message: "there is no pool of " + useName(w.Use) + familyName(w.Family)}
}

// parse parses the value of a claim.
func parse(w Want) (pool.Value, error) {
	if w.Use == allocatorv1.Use_USE_NODE_PORT {
		return pool.ParsePort(w.Value)
	}
	v, err := pool.ParseAddr(w.Value)
	switch {
	case err != nil:
		return v, err
	case w.Family == corev1.IPFamily_IP_FAMILY_IPV4 && !v.Addr().Is4():
		return v, fmt.Errorf("%s is no IPv4 address", v)
	case w.Family == corev1.IPFamily_IP_FAMILY_IPV6 && !v.Addr().Is6():
		return v, errors.New(v.String() + " is no IPv6 address")
	}
	return v, nil
}

func invalid(format string, args ...any) *Failure {
	return &Failure{Reason: allocatorv1.FailureReason_FAILURE_REASON_INVALID, Message: fmt.Sprintf(format, args...)}
}

func familyFits(s pool.Space, family corev1.IPFamily) bool {
	switch {
	case !s.IsAddresses():
		return true
	case family == corev1.IPFamily_IP_FAMILY_IPV4:
		return s.Prefix().Addr().Is4()
	case family == corev1.IPFamily_IP_FAMILY_IPV6:
		return s.Prefix().Addr().Is6()
	default:
		return true
	}
}

func ranges(pools []*entry) string {
	if len(pools) == 0 {
		return "empty"
	}
	texts := make([]string, len(pools))
	for i, e := range pools {
		texts[i] = e.Range
	}
	return strings.Join(texts, ", ")
}

func valueName(u allocatorv1.Use) string {
	if u == allocatorv1.Use_USE_NODE_PORT {
		return "port"
	}
	return "IP"
}

func useName(u allocatorv1.Use) string {
	switch u {
	case allocatorv1.Use_USE_CLUSTER_IP:
		return "cluster IPs"
	case allocatorv1.Use_USE_NODE_PORT:
		return "node ports"
	case allocatorv1.Use_USE_LOAD_BALANCER_IP:
		return "load-balancer IPs"
	case allocatorv1.Use_USE_POD_IP:
		return "pod IPs"
	default:
		return "nothing"
	}
}

func familyName(f corev1.IPFamily) string {
	switch f {
	case corev1.IPFamily_IP_FAMILY_IPV4:
		return " of family IPv4"
	case corev1.IPFamily_IP_FAMILY_IPV6:
		return " of family IPv6"
	default:
		return ""
	}
}
