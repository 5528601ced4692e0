package allocation

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

// ClaimRequest is a requested claim.
type ClaimRequest struct {
	Slot   string
	Use    allocatorv1.Use
	Family corev1.IPFamily
	Value  string // exactly this value; empty: any
	Pool   string // only from this pool; empty: any
	// Protocols are the protocols that need the port; empty: all. They matter in pools with a value for
	// each protocol.
	Protocols []pool.Protocol
	// MovesFrom is the UID of another owner from which the requested address moves; empty: none.
	MovesFrom string
	// Repair allows a value that an object already has to come from a retired pool.
	Repair bool
}

// Failure is the reason why a claim could not be served.
type Failure struct {
	Slot    string
	Pool    string // the pool that was tried, if any
	Reason  allocatorv1.FailureReason
	Message string
	// Owner is the owner of the requested value, if it is allocated.
	Owner store.Owner
	// Recall is the requested value, if it is in a reserve and must be recalled.
	Recall pool.Value
}

// IsAtHand reports whether the claim may be served once the holders of reserves have returned values.
func (f *Failure) IsAtHand() bool {
	return f.Reason == allocatorv1.FailureReason_FAILURE_REASON_AT_HAND
}

// ClaimResult is a value that was allocated for a claim. If there is a value for each protocol, it is the
// one of the first protocol.
type ClaimResult struct {
	Value  pool.Value
	Pool   string
	Static bool // the value was requested explicitly
	New    bool // the owner did not have it before
}

// Allocate serves all claims of an owner, or none. If any claim fails, it returns the failures. If some
// claims fail for other reasons, the failures of claims that only wait for values in reserves are left out.
func (t *Table) Allocate(now time.Time, owner store.Owner, wants []ClaimRequest, c *Change) ([]ClaimResult, []Failure) {
	mark := c.Mark()
	got := make([]ClaimResult, 0, len(wants))
	var failures []Failure
	seen := make(map[string]bool, len(wants))
	for _, w := range wants {
		g, f := t.allocateOne(now, owner, w, seen, c)
		if f != nil {
			f.Slot = w.Slot
			failures = append(failures, *f)
			continue
		}
		got = append(got, g)
	}
	if len(failures) > 0 {
		c.Rollback(mark)
		return nil, withoutWaiting(failures)
	}
	return got, nil
}

func withoutWaiting(failures []Failure) []Failure {
	final := slices.DeleteFunc(slices.Clone(failures), func(f Failure) bool { return f.IsAtHand() })
	if len(final) > 0 {
		return final
	}
	return failures
}

func (t *Table) allocateOne(now time.Time, owner store.Owner, w ClaimRequest, seen map[string]bool, c *Change) (ClaimResult, *Failure) {
	switch {
	case owner.UID == "":
		return ClaimResult{}, invalid("owner.uid is required: a value belongs to an object, which its uid identifies")
	case w.Slot == "":
		return ClaimResult{}, invalid("slot is required")
	case seen[w.Slot]:
		return ClaimResult{}, invalid("slot %q appears twice", w.Slot)
	case w.Use == allocatorv1.Use_USE_UNSPECIFIED:
		return ClaimResult{}, invalid("use is required")
	}
	seen[w.Slot] = true
	if w.Value == "" {
		return t.allocateAny(now, owner, w, c)
	}
	return t.allocateExact(now, owner, w, c)
}

// allocateAny returns the value that the slot already has, or allocates a free one.
func (t *Table) allocateAny(now time.Time, owner store.Owner, w ClaimRequest, c *Change) (ClaimResult, *Failure) {
	if has := t.claimsOf(owner.UID, w.Slot); len(has) > 0 {
		h := has[len(has)-1].allocation
		e := t.pool(h.pool)
		if e.Use != w.Use {
			return ClaimResult{}, invalid("slot %q has %s, which is for %s", w.Slot, h.value, useName(e.Use))
		}
		if e.PerProtocol {
			return t.allocatePort(now, owner, w, e, h.value.Port(), c)
		}
		t.addClaim(now, owner, w.Slot, h, c)
		return ClaimResult{Value: h.value, Pool: e.Name}, nil
	}
	pools := t.candidates(w)
	if len(pools) == 0 {
		return ClaimResult{}, t.noPool(w)
	}
	e, v, found := t.pick(now, pools, w.protocols())
	if !found {
		return ClaimResult{}, noneFree(pools)
	}
	if e.PerProtocol {
		return t.allocatePort(now, owner, w, e, v.Port(), c)
	}
	t.addClaim(now, owner, w.Slot, t.assign(owner, e, v, c), c)
	return ClaimResult{Value: v, Pool: e.Name, New: true}, nil
}

// pick returns a value of the best class that any pool has. From a pool with values for each protocol
// it returns a number that none of the protocols has in use.
func (t *Table) pick(now time.Time, pools []*poolState, protocols []pool.Protocol) (best *poolState, value pool.Value, found bool) {
	var class pool.Class
	for _, e := range pools {
		if e.State != allocatorv1.PoolState_POOL_STATE_ACTIVE {
			continue
		}
		v, c, err := e.pick(now, protocols)
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

// allocateExact allocates the requested value.
func (t *Table) allocateExact(now time.Time, owner store.Owner, w ClaimRequest, c *Change) (ClaimResult, *Failure) {
	v, err := parseValue(w)
	if err != nil {
		return ClaimResult{}, invalid("%v", err)
	}
	pools := t.candidates(w)
	for _, e := range pools {
		if !e.values.Space().HasNumber(v) {
			continue
		}
		if e.PerProtocol {
			got, f := t.allocatePort(now, owner, w, e, v.Port(), c)
			got.Static = true
			return got, f
		}
		return t.allocateFrom(now, owner, w, e, v, c)
	}
	return ClaimResult{}, notInRange(w, v, pools)
}

// notInRange returns the failure of a claim for a value that none of the pools has. An address may lie in the CIDR of a
// pool that leaves it out.
func notInRange(w ClaimRequest, v pool.Value, pools []*poolState) *Failure {
	f := &Failure{
		Reason: allocatorv1.FailureReason_FAILURE_REASON_NOT_IN_RANGE,
		Message: fmt.Sprintf("provided %s is not in the valid range. The range of valid %ss is %s",
			valueName(w.Use), valueName(w.Use), ranges(pools)),
	}
	for _, e := range pools {
		if why := e.values.Space().LeavesOut(v); why != "" {
			f.Pool = e.Name
			space := e.values.Space()
			f.Message = fmt.Sprintf("provided %s %s is %s, which the pool %q leaves out; its values are %s to %s",
				valueName(w.Use), v, why, e.Name, space.Value(0), space.Value(space.Size()-1))
		}
	}
	return f
}

func (t *Table) allocateFrom(now time.Time, owner store.Owner, w ClaimRequest, e *poolState, v pool.Value, c *Change) (ClaimResult, *Failure) {
	got := ClaimResult{Value: v, Pool: e.Name, Static: true}
	h := t.values[v]
	if h != nil && h.reserved == nil && w.MovesFrom != "" && h.owner.UID == w.MovesFrom && h.owner.UID != owner.UID {
		for _, x := range slices.Clone(h.claims) {
			t.removeClaim(now, x, c)
		}
		h = t.assign(owner, e, v, c)
		got.New = true
	}
	switch {
	case h != nil && h.reserved != nil:
		return ClaimResult{}, &Failure{
			Pool: e.Name, Reason: allocatorv1.FailureReason_FAILURE_REASON_AT_HAND, Recall: v,
			Message: fmt.Sprintf("provided %s %s is at hand at a registry that has not returned it yet; try again", valueName(w.Use), v),
		}
	case h != nil && h.owner.UID != owner.UID:
		return ClaimResult{}, &Failure{Pool: e.Name, Reason: allocatorv1.FailureReason_FAILURE_REASON_ALLOCATED, Owner: h.owner, Message: "provided " + valueName(w.Use) + " is already allocated" + forProtocol(v)}
	case h == nil && e.State == allocatorv1.PoolState_POOL_STATE_RETIRED && !w.Repair:
		return ClaimResult{}, &Failure{Pool: e.Name, Reason: allocatorv1.FailureReason_FAILURE_REASON_NOT_IN_RANGE, Message: fmt.Sprintf("provided %s is of pool %q, which is retired", valueName(w.Use), e.Name)}
	case h == nil:
		h = t.assign(owner, e, v, c)
		got.New = true
	}
	t.dropUnconfirmed(now, owner, w.Slot, v, c)
	t.addClaim(now, owner, w.Slot, h, c)
	return got, nil
}

// dropUnconfirmed drops unconfirmed claims of the slot on other values, because another value is
// requested now.
func (t *Table) dropUnconfirmed(now time.Time, owner store.Owner, slot string, v pool.Value, c *Change) {
	for _, has := range slices.Clone(t.claimsOf(owner.UID, slot)) {
		if !has.confirmed && has.allocation.value != v {
			t.removeClaim(now, has, c)
		}
	}
}

// assign allocates a free value to the owner.
func (t *Table) assign(owner store.Owner, e *poolState, v pool.Value, c *Change) *allocation {
	since, rested := e.values.RestingSince(v)
	if err := e.values.Allocate(v); err != nil {
		panic(fmt.Sprintf("allocation: %s is not allocated and not free: %v", v, err))
	}
	h := newAllocation(v, e, owner)
	t.values[v] = h
	c.add(step{allocation: h, newlyAllocated: true, undo: func() {
		delete(t.values, v)
		e.values.Free(v)
		if rested && e.values.Allocate(v) == nil {
			e.values.Release(v, since)
		}
	}})
	return h
}

// addClaim adds a claim of the slot to the allocation, or renews its existing claim.
func (t *Table) addClaim(now time.Time, owner store.Owner, slot string, h *allocation, c *Change) {
	if has := t.claim(owner.UID, slot, h.value); has != nil {
		if has.confirmed {
			return
		}
		before := has.since
		has.since = now
		c.add(step{allocation: h, undo: func() { has.since = before }})
		return
	}
	fresh := &claim{slot: intern(slot), allocation: h, since: now}
	t.link(fresh)
	c.add(step{allocation: h, undo: func() { t.unlink(fresh) }})
}

// candidates returns the pools that a claim may be served from.
func (t *Table) candidates(w ClaimRequest) []*poolState {
	var fit []*poolState
	for _, e := range t.pools {
		if e.Use == w.Use && (w.Pool == "" || w.Pool == e.Name) && familyFits(e.values.Space(), w.Family) {
			fit = append(fit, e)
		}
	}
	return fit
}

func (t *Table) noPool(w ClaimRequest) *Failure {
	if w.Pool != "" {
		return invalid("pool %q does not exist or is not for %s", w.Pool, useName(w.Use))
	}
	return &Failure{Reason: allocatorv1.FailureReason_FAILURE_REASON_FULL, Message: "there is no pool of " + useName(w.Use) + familyName(w.Family)}
}

// parseValue parses the value of a claim.
func parseValue(w ClaimRequest) (pool.Value, error) {
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

func ranges(pools []*poolState) string {
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
