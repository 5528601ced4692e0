package allocation

import (
	"errors"
	"slices"
	"time"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"

	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// Errors of Reserve. The table is unchanged.
var (
	ErrNoReserve = errors.New("there is no such reserve")
	ErrOvertaken = errors.New("a later call of the reserve was served before")
)

// ReserveRequest is a call of the holder of a reserve.
type ReserveRequest struct {
	Holder string
	// Begin makes the reserve if there is none.
	Begin bool
	// Call is the number of the call, and Received the number of the newest grant that the holder has
	// received; see the API. 0: the holder does not number its calls.
	Call, Received uint64
	Wishes         []ReserveCount // at most one for each family
	Settled        []Settlement
	Returned       []ReservedValue
	// Close ends the reserve.
	Close bool
}

// ReserveCount is a number of values of a family.
type ReserveCount struct {
	Family corev1.IPFamily
	Count  uint64
}

// Settlement reports that an object has got a value of a reserve.
type Settlement struct {
	ReservedValue
	Owner     store.Owner
	Slot      string
	Confirmed bool // the object is stored; otherwise that is not known
}

// ReserveResult is the result of a call.
type ReserveResult struct {
	Granted, Recalled []ReservedValue
	Limits            []ReserveCount // number of values that the holder may keep, for each wish
	Settled           int            // number of values that went to their objects
	Ignored           int            // settlements and returns of values that are not in the reserve under their grant
}

// Reserve serves a call of the holder of a reserve. It returns ErrNoReserve if the reserve does not
// exist and shall not begin, unless the call closes it.
func (t *Table) Reserve(now time.Time, req ReserveRequest, c *Change) (ReserveResult, error) {
	r := t.reserves[req.Holder]
	switch {
	case r != nil:
	case req.Close:
		return ReserveResult{Ignored: len(req.Settled) + len(req.Returned)}, nil
	case !req.Begin:
		return ReserveResult{}, ErrNoReserve
	default:
		r = t.begin(now, req.Holder, c)
	}
	if req.Call != 0 && req.Call <= r.Grant {
		return ReserveResult{}, ErrOvertaken
	}
	var res ReserveResult
	t.settleAll(now, req, &res, c)
	t.takeReturns(now, r, req, &res, c)
	if req.Close {
		t.closeReserve(now, r, noOwner, c)
		return res, nil
	}
	r.renew(now, c)
	number := max(r.Grant+1, req.Call) // of the grant, of all families
	for _, w := range req.Wishes {
		granted, limit := t.grant(now, r, number, w, c)
		res.Granted = append(res.Granted, granted...)
		res.Limits = append(res.Limits, ReserveCount{Family: w.Family, Count: limit})
	}
	res.Recalled = t.recalled(now, r)
	return res, nil
}

// settleAll gives values of the reserve to the objects that have got them.
func (t *Table) settleAll(now time.Time, req ReserveRequest, res *ReserveResult, c *Change) {
	for _, s := range req.Settled {
		if t.Settle(now, req.Holder, s, c) {
			res.Settled++
		} else {
			res.Ignored++
		}
	}
}

// Settle gives a value of a reserve to an object, or lets it rest if the object is deleted already. It
// reports whether the value was in the reserve under the grant.
func (t *Table) Settle(now time.Time, holder string, s Settlement, c *Change) bool {
	h := t.reservedIn(holder, s.ReservedValue)
	if h == nil {
		return false
	}
	if h.reserved.released == s.Owner.UID {
		t.giveBack(now, h, true, c)
		return true
	}
	t.handOver(now, h, s.Owner, s.Slot, s.Confirmed, c)
	return true
}

// takeReturns frees the values that the holder returns, and the values that earlier calls granted in
// answers that never reached the holder. A recalled value is not granted again for some time,
// so that it does not go straight back to the same reserve.
func (t *Table) takeReturns(now time.Time, r *reserve, req ReserveRequest, res *ReserveResult, c *Change) {
	for _, v := range req.Returned {
		h := t.reservedIn(req.Holder, v)
		if h == nil {
			res.Ignored++
			continue
		}
		t.giveBack(now, h, !h.reserved.recalled.IsZero(), c)
	}
	if req.Call == 0 || r.Grant <= req.Received {
		return
	}
	for _, h := range r.sorted() {
		if h.reserved.grant > req.Received {
			t.giveBack(now, h, !h.reserved.recalled.IsZero(), c)
		}
	}
}

// grant adds values of a family to a reserve until the holder has as many as it wishes, and returns them
// with the number of values that the holder may keep.
func (t *Table) grant(now time.Time, r *reserve, number uint64, w ReserveCount, c *Change) (granted []ReservedValue, limit uint64) {
	pools := t.grantable(now, w.Family)
	var has uint64
	for _, e := range pools {
		limit += e.share()
		has += r.inPool[e.Name]
	}
	for _, e := range pools {
		for has < min(w.Count, limit) && r.inPool[e.Name] < e.share() {
			v, class, err := e.values.Pick(now)
			if err != nil || class != pool.Upper {
				break
			}
			t.grantValue(now, r, e, ReservedValue{Value: v, Grant: number}, c)
			granted = append(granted, ReservedValue{Value: v, Grant: number})
			has++
		}
	}
	if len(granted) > 0 && r.Grant != number {
		row := r.Reserve
		row.Grant = number
		r.set(row, c)
	}
	return granted, limit
}

// grantable returns the pools that may grant values.
func (t *Table) grantable(now time.Time, family corev1.IPFamily) []*poolState {
	return slices.DeleteFunc(t.candidates(ClaimRequest{Use: allocatorv1.Use_USE_CLUSTER_IP, Family: family}), func(e *poolState) bool { return !t.isRoomy(e, now) })
}

// grantValue moves a free value into a reserve.
func (t *Table) grantValue(now time.Time, r *reserve, e *poolState, v ReservedValue, c *Change) {
	if err := e.values.Allocate(v.Value); err != nil {
		panic("allocation: a free value is not to be had: " + err.Error())
	}
	h := newAllocation(v.Value, e, r.owner())
	h.reserved = &reservation{reserve: r, grant: v.Grant, granted: now}
	t.values[v.Value] = h
	t.enlist(h)
	c.add(step{allocation: h, newlyAllocated: true, undo: func() {
		t.delist(h)
		delete(t.values, v.Value)
		e.values.Free(v.Value)
	}})
}

// recalled returns the values that the holder must return: the recalled values, and all values of pools
// that are too scarce for reserves now.
func (t *Table) recalled(now time.Time, r *reserve) []ReservedValue {
	var back []ReservedValue
	scarce := map[string]bool{}
	for name := range r.inPool {
		scarce[name] = !t.isRoomy(t.pool(name), now)
	}
	for v, h := range r.values {
		if !h.reserved.recalled.IsZero() || scarce[h.pool] {
			back = append(back, ReservedValue{Value: v, Grant: h.reserved.grant})
		}
	}
	slices.SortFunc(back, compareReserved)
	return back
}

// sorted returns the values of a reserve in order.
func (r *reserve) sorted() []*allocation {
	all := make([]*allocation, 0, len(r.values))
	for _, h := range r.values {
		all = append(all, h)
	}
	slices.SortFunc(all, func(x, y *allocation) int {
		return compareReserved(ReservedValue{Value: x.value}, ReservedValue{Value: y.value})
	})
	return all
}

// OwnerOf returns the object that has a value and the slot under which it gets it, and whether there
// is one.
type OwnerOf func(v pool.Value) (owner store.Owner, slot string, ok bool)

// noOwner is an OwnerOf for a reserve without values in objects.
func noOwner(pool.Value) (store.Owner, string, bool) { return store.Owner{}, "", false }

// CloseReserve ends a reserve. No value of it may be stored in an object after that. A value that an object
// has is confirmed for it, and all others rest. CloseReserve reports whether there was such a reserve.
func (t *Table) CloseReserve(now time.Time, holder string, ownerOf OwnerOf, c *Change) bool {
	r := t.reserves[holder]
	if r == nil {
		return false
	}
	t.closeReserve(now, r, ownerOf, c)
	return true
}

func (t *Table) closeReserve(now time.Time, r *reserve, ownerOf OwnerOf, c *Change) {
	for _, h := range r.sorted() {
		if owner, slot, ok := ownerOf(h.value); ok {
			t.handOver(now, h, owner, slot, true, c)
		} else {
			t.giveBack(now, h, true, c)
		}
	}
	t.end(r, c)
}
