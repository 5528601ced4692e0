package allocation

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	allocatorv1 "portolan.dev/api/allocator/v1"
	"portolan.dev/services/kit/apierr"

	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// poolKind is the kind that errors of the API name for a pool.
const poolKind = "Pool"

var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// CheckCreate returns the new pool with defaults filled in, or an error of the API if it is not
// valid.
func (t *Table) CheckCreate(p store.Pool) (store.Pool, error) {
	var v apierr.Violations
	if !label.MatchString(p.Name) {
		v.Add("name", apierr.ReasonInvalid, "%q is no DNS-1123 label: lower-case letters, digits and '-', at most 63 characters", p.Name)
	}
	if p.Use == allocatorv1.Use_USE_UNSPECIFIED || allocatorv1.Use_name[int32(p.Use)] == "" {
		v.Add("use", apierr.ReasonRequired, "use is required: cluster IPs, node ports, load-balancer IPs or pod IPs")
	}
	if p.PerProtocol && p.Use != allocatorv1.Use_USE_NODE_PORT {
		v.Add("perProtocol", apierr.ReasonInvalid, "only node ports have protocols; leave it out for %s", useName(p.Use))
	}
	space := checkRange(p, &v)
	if p.AvoidBuggyIPs && (p.Use != allocatorv1.Use_USE_LOAD_BALANCER_IP || !space.AvoidsBuggyIPs()) {
		v.Add("avoidBuggyIps", apierr.ReasonInvalid, "only IPv4 addresses of load balancers that end in .0 or .255 can be avoided; leave it out")
	}
	p.State = checkState(p.State, &v)
	t.checkUsable(p.Use, space, &v)
	if len(v) > 0 {
		return p, apierr.Invalid(poolKind, p.Name, v)
	}
	if t.pool(p.Name) != nil {
		return p, apierr.AlreadyExists(poolKind, p.Name)
	}
	if other := t.overlapping(p.Name, space); other != nil {
		return p, overlaps(space, other)
	}
	if p.Band == 0 {
		p.Band = space.Band()
	}
	p.Range = space.String()
	return p, nil
}

// CheckUpdate returns the pool as it is after an update, or an error of the API if the update is
// not allowed.
func (t *Table) CheckUpdate(p store.Pool) (store.Pool, error) {
	e := t.pool(p.Name)
	if e == nil {
		return p, apierr.NotFound(poolKind, p.Name)
	}
	var v apierr.Violations
	if p.Use == allocatorv1.Use_USE_UNSPECIFIED {
		p.Use = e.Use
	}
	if p.Use != e.Use {
		v.Add("use", apierr.ReasonImmutable, "use is %s and cannot be changed", useName(e.Use))
	}
	if p.Range == "" {
		p.Range = e.Range
	}
	if p.PerProtocol && !e.PerProtocol {
		v.Add("perProtocol", apierr.ReasonImmutable, "the numbers of the pool are of all protocols, which cannot be changed; create another pool")
	}
	if p.AvoidBuggyIPs && !e.AvoidBuggyIPs {
		v.Add("avoidBuggyIps", apierr.ReasonImmutable, "the pool gives any of its addresses, which cannot be changed; create another pool")
	}
	p.PerProtocol, p.AvoidBuggyIPs = e.PerProtocol, e.AvoidBuggyIPs
	space := checkRange(store.Pool{Use: p.Use, Range: p.Range, PerProtocol: p.PerProtocol, AvoidBuggyIPs: p.AvoidBuggyIPs}, &v)
	band := e.band(space)
	if p.Band != 0 && p.Band != e.Band && p.Band != band {
		v.Add("staticBand", apierr.ReasonImmutable, "the static band is %d and cannot be chosen anew", band)
	}
	if len(v) == 0 && band > space.Span() {
		v.Add("range", apierr.ReasonInvalid, "%s is smaller than the static band of %d with which the pool was created; choose a larger one", space, band)
	}
	p.Band = band
	if p.State == allocatorv1.PoolState_POOL_STATE_UNSPECIFIED {
		p.State = e.State
	}
	p.State = checkState(p.State, &v)
	if p.Range != e.Range { // otherwise the pool could not be retired
		t.checkUsable(p.Use, space, &v)
	}
	if len(v) > 0 {
		return p, apierr.Invalid(poolKind, p.Name, v)
	}
	if other := t.overlapping(p.Name, space); other != nil {
		return p, overlaps(space, other)
	}
	if first, n := e.values.LeftOutBy(space); n > 0 {
		o := t.values[first].owner
		return p, apierr.FailedPrecondition(fmt.Sprintf("range: %s leaves out %d values in use, such as %s of %s %s/%s; delete or change what has them first, or keep them in the range",
			space, n, first, o.Kind, o.Namespace, o.Name))
	}
	p.Range = space.String()
	return p, nil
}

// overlaps returns the error for a range that has values in common with another pool.
func overlaps(space pool.Space, other *poolState) error {
	return apierr.FailedPrecondition(fmt.Sprintf("range: %s overlaps pool %q with range %s; choose a range apart from it, or enlarge that pool", space, other.Name, other.Range))
}

// band returns the static band of a pool that gets another range. It is the band of a new pool with
// that range, unless the pool was created with a band of its own.
func (e *poolState) band(space pool.Space) uint64 {
	if e.Band == e.values.Space().Band() {
		return space.Band()
	}
	return e.Band
}

// CheckDelete returns an error of the API if a pool cannot be deleted.
func (t *Table) CheckDelete(name string) error {
	e := t.pool(name)
	switch {
	case e == nil:
		return apierr.NotFound(poolKind, name)
	case e.State != allocatorv1.PoolState_POOL_STATE_RETIRED:
		return apierr.FailedPrecondition(fmt.Sprintf("state: pool %q is %s; only a retired pool can be deleted", name, stateName(e.State)))
	case e.values.Used() > 0:
		return apierr.FailedPrecondition(fmt.Sprintf("used: pool %q has %d values in use; delete or change what has them first", name, e.values.Used()))
	}
	return nil
}

// PutPool adds or replaces a pool that was checked and stored.
func (t *Table) PutPool(p store.Pool, now time.Time) error {
	space, err := p.Space()
	if err != nil {
		return err
	}
	old := t.pool(p.Name)
	switch {
	case old == nil:
		t.pools = append(t.pools, &poolState{Pool: p, values: pool.New(space, p.Band, t.rest)})
		t.sortPools()
		return nil
	case old.Range == p.Range && old.Band == p.Band:
		old.Pool = p
		return nil
	}
	old.values.Resting(now) // ends the rests that are over
	resized, err := old.values.Resized(space, p.Band)
	if err != nil {
		return fmt.Errorf("pool %s: %w", p.Name, err)
	}
	old.Pool, old.values = p, resized
	t.recountReserved(old)
	return nil
}

// RemovePool removes a pool that was checked and removed from the store.
func (t *Table) RemovePool(name string) {
	t.pools = slices.DeleteFunc(t.pools, func(e *poolState) bool { return e.Name == name })
}

// PoolStatus returns the fill level of a pool, and whether the pool exists.
func (t *Table) PoolStatus(name string, now time.Time) (PoolStatus, bool) {
	e := t.pool(name)
	if e == nil {
		return PoolStatus{}, false
	}
	return e.status(now), true
}

func (t *Table) overlapping(name string, s pool.Space) *poolState {
	for _, e := range t.pools {
		if e.Name != name && e.values.Space().Overlaps(s) {
			return e
		}
	}
	return nil
}

func checkRange(p store.Pool, v *apierr.Violations) pool.Space {
	space, err := p.Space()
	switch {
	case err != nil:
		v.Add("range", apierr.ReasonInvalid, "%v", err)
	case space.IsAddresses() == (p.Use == allocatorv1.Use_USE_NODE_PORT):
		v.Add("range", apierr.ReasonInvalid, "%s cannot be for %s, which need %s", space, useName(p.Use), rangeOf(p.Use))
	case p.Band > space.Span():
		v.Add("staticBand", apierr.ReasonInvalid, "the static band of %d is larger than the range of %d values; leave it out, and it is computed", p.Band, space.Span())
	}
	return space
}

// checkUsable refuses a range with addresses that no object can have.
func (t *Table) checkUsable(use allocatorv1.Use, space pool.Space, v *apierr.Violations) {
	local := slices.ContainsFunc(t.pools, func(e *poolState) bool { return IsLocal(e.Use, e.values.Space()) })
	if why := Unusable(use, space, local); why != "" {
		v.Add("range", apierr.ReasonInvalid, "%s", why)
	}
}

// rangeOf returns the form of the ranges of a use.
func rangeOf(u allocatorv1.Use) string {
	if u == allocatorv1.Use_USE_NODE_PORT {
		return "ports, such as 30000-32767"
	}
	return "addresses, such as 10.96.0.0/16"
}

func stateName(s allocatorv1.PoolState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "POOL_STATE_"))
}

func checkState(s allocatorv1.PoolState, v *apierr.Violations) allocatorv1.PoolState {
	if s == allocatorv1.PoolState_POOL_STATE_UNSPECIFIED {
		return allocatorv1.PoolState_POOL_STATE_ACTIVE
	}
	if allocatorv1.PoolState_name[int32(s)] == "" {
		v.Add("state", apierr.ReasonNotSupported, "state %d is not known", s)
	}
	return s
}
