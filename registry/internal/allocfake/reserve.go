package allocfake

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
)

// returnWait is how long a claim waits for values in reserves.
const returnWait = 3 * time.Second

// reserve is the reserve of one holder. Its values are among the holders.
type reserve struct {
	closed   bool
	call     uint64 // newest call that was granted values
	grant    uint64 // newest grant
	recalled []string
}

// EnableReserves makes the allocator grant reserves of at most this many values of each pool. As in
// the real allocator, values are granted only while more are free than all reserves may have.
func (a *Allocator) EnableReserves(most int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.most = most
}

// SetLogEpoch sets the epoch of the registry's log that the allocator has taken over. Reserves of
// another epoch must have been closed before.
func (a *Allocator) SetLogEpoch(epoch string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.epoch = epoch
}

// Holders returns the holders of reserves that are not closed, sorted.
func (a *Allocator) Holders() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var names []string
	for name, r := range a.reserves {
		if !r.closed {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Reserved returns the values in reserves, sorted.
func (a *Allocator) Reserved() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var values []string
	for value, h := range a.holders {
		if h.grant != 0 {
			values = append(values, value)
		}
	}
	slices.Sort(values)
	return values
}

// Take makes a value belong to an owner, as the real allocator does when it takes over the values of
// a restored registry.
func (a *Allocator) Take(uid, value string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.holders[value] = newHolder(uid, "restored", true)
}

// CloseReserve closes a reserve as the real allocator does when a holder is silent or the log has
// another epoch. inUse has the owner's UID of each address that an object in the registry has. The
// caller must have deleted the Lease of the holder before it read the objects.
func (a *Allocator) CloseReserve(holder string, inUse map[string]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.close(holder, inUse)
}

func (a *Allocator) close(name string, inUse map[string]string) {
	a.reserves[name] = &reserve{closed: true}
	for _, value := range a.valuesOf(name) {
		delete(a.holders, value)
		if uid := inUse[value]; uid != "" {
			a.holders[value] = newHolder(uid, "closed", true)
		}
	}
	a.changed.Broadcast()
}

func newHolder(uid, slot string, confirmed bool) holder {
	return holder{owner: uid, slots: []string{slot}, confirmed: confirmed}
}

// valuesOf returns the values in a reserve, sorted.
func (a *Allocator) valuesOf(name string) []string {
	var values []string
	for value, h := range a.holders {
		if h.owner == name && h.grant != 0 {
			values = append(values, value)
		}
	}
	slices.Sort(values)
	return values
}

// Reserve implements the service.
func (a *Allocator) Reserve(_ context.Context, req *allocatorv1.ReserveRequest) (*allocatorv1.ReserveResponse, error) {
	if err := a.lock(); err != nil {
		return nil, err
	}
	defer a.mu.Unlock()
	if a.most == 0 {
		return nil, status.Error(codes.Unimplemented, "this allocator has no reserves")
	}
	a.calls.Reserve++
	name := req.GetHolder()
	if a.reserves[name] == nil {
		a.reserves[name] = &reserve{}
	}
	r := a.reserves[name]
	switch {
	case r.closed:
		return nil, status.Errorf(codes.FailedPrecondition, "the reserve of %s is closed", name)
	case req.GetCall() <= r.call:
		return nil, status.Errorf(codes.Aborted, "call %d came after call %d", req.GetCall(), r.call)
	}
	answer := &allocatorv1.ReserveResponse{LogEpoch: a.epoch}
	a.takeBackLost(name, req.GetReceived())
	a.settle(name, req, answer)
	if req.GetClose() {
		a.close(name, nil)
		return answer, nil
	}
	a.grant(name, req, answer)
	a.recall(name, answer)
	return answer, nil
}

// takeBackLost frees the values of grants that the holder has not received.
func (a *Allocator) takeBackLost(name string, received uint64) {
	for _, value := range a.valuesOf(name) {
		if a.holders[value].grant > received {
			delete(a.holders, value)
		}
	}
}

func (a *Allocator) settle(name string, req *allocatorv1.ReserveRequest, answer *allocatorv1.ReserveResponse) {
	for _, s := range req.GetSettled() {
		switch h := a.holders[s.GetValue()]; {
		case h.owner != name || h.grant != s.GetGrant():
			answer.Ignored++
		case h.released == s.GetOwner().GetUid():
			delete(a.holders, s.GetValue())
		default:
			a.holders[s.GetValue()] = newHolder(s.GetOwner().GetUid(), s.GetSlot(), s.GetConfirmed())
		}
	}
	for _, v := range req.GetReturned() {
		if h := a.holders[v.GetValue()]; h.owner != name || h.grant != v.GetGrant() {
			answer.Ignored++
			continue
		}
		delete(a.holders, v.GetValue())
	}
	a.changed.Broadcast()
}

func (a *Allocator) grant(name string, req *allocatorv1.ReserveRequest, answer *allocatorv1.ReserveResponse) {
	r := a.reserves[name]
	r.grant++
	for _, wish := range req.GetWishes() {
		i := slices.IndexFunc(a.pools, func(p pool) bool { return p.use == wish.GetUse() && p.family == wish.GetFamily() })
		if i < 0 {
			continue
		}
		free := a.freeOf(a.pools[i])
		slices.Reverse(free) // reserves have the last values of a pool, and claims get the first ones
		limit := a.most
		if len(free) <= a.bound() {
			limit = 0
		}
		answer.Limits = append(answer.Limits, &allocatorv1.ReserveLimit{Family: wish.GetFamily(), Count: uint32(limit)}) // #nosec G115 -- of a test
		have := a.countOf(name, wish.GetFamily())
		for _, value := range free[:max(0, min(int(wish.GetCount())-have, limit-have, len(free)-a.bound()))] {
			h := newHolder(name, fmt.Sprintf("grant/%d", r.grant), false)
			h.grant = r.grant
			a.holders[value] = h
			answer.Granted = append(answer.Granted, &allocatorv1.ReservedValue{Value: value, Grant: r.grant, Family: wish.GetFamily()})
			r.call = req.GetCall()
		}
	}
}

func (a *Allocator) freeOf(p pool) []string {
	var free []string
	for _, value := range p.values {
		if _, taken := a.holders[value]; !taken && a.awaited[value] == 0 {
			free = append(free, value)
		}
	}
	return free
}

// bound is the number of values that all reserves together may have of a pool.
func (a *Allocator) bound() int {
	open := 0
	for _, r := range a.reserves {
		if !r.closed {
			open++
		}
	}
	return a.most * open
}

func (a *Allocator) countOf(name string, family corev1.IPFamily) int {
	count := 0
	for _, value := range a.valuesOf(name) {
		if strings.Contains(value, ":") == (family == corev1.IPFamily_IP_FAMILY_IPV6) {
			count++
		}
	}
	return count
}

// recall adds to an answer the values for which claims wait.
func (a *Allocator) recall(name string, answer *allocatorv1.ReserveResponse) {
	r := a.reserves[name]
	for _, value := range r.recalled {
		if h := a.holders[value]; h.owner == name && h.grant != 0 {
			answer.Recalled = append(answer.Recalled, &allocatorv1.ReservedValue{Value: value, Grant: h.grant})
		}
	}
	r.recalled = nil
}

// recallValue makes the holder of a value give it back with its next call.
func (a *Allocator) recallValue(value string) {
	if h, ok := a.holders[value]; ok && h.grant != 0 {
		r := a.reserves[h.owner]
		r.recalled = append(r.recalled, value)
	}
}

// serveWithReserves serves a set. If it needs values that are in reserves, it waits for them.
func (a *Allocator) serveWithReserves(set *allocatorv1.ClaimSet, dryRun bool) *allocatorv1.ClaimSetResult {
	result := a.serve(set, dryRun)
	if !a.needsReserved(set, result) {
		return result
	}
	for _, claim := range set.GetClaims() { // they are not granted again before the set gets them
		a.awaited[claim.GetValue()]++
		defer func() { a.awaited[claim.GetValue()]-- }()
	}
	over := false
	timer := time.AfterFunc(returnWait, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		over = true
		a.changed.Broadcast()
	})
	defer timer.Stop()
	for !over {
		a.changed.Wait()
		if result = a.serve(set, dryRun); !a.needsReserved(set, result) {
			return result
		}
	}
	for _, failure := range result.GetFailures() {
		failure.Reason = allocatorv1.FailureReason_FAILURE_REASON_AT_HAND
		failure.Message = "the values are at hand at registries that do not answer"
	}
	return result
}

// needsReserved reports whether a set could not be served because values are in reserves. It recalls the
// values that are claimed by name.
func (a *Allocator) needsReserved(set *allocatorv1.ClaimSet, result *allocatorv1.ClaimSetResult) bool {
	if len(result.GetFailures()) == 0 {
		return false
	}
	for _, failure := range result.GetFailures() {
		i := slices.IndexFunc(set.GetClaims(), func(c *allocatorv1.Claim) bool { return c.GetSlot() == failure.GetSlot() })
		claim := set.GetClaims()[i]
		switch {
		case failure.GetReason() == allocatorv1.FailureReason_FAILURE_REASON_ALLOCATED && a.holders[claim.GetValue()].grant != 0:
			a.recallValue(claim.GetValue())
		case failure.GetReason() != allocatorv1.FailureReason_FAILURE_REASON_FULL || !a.anyReserved(claim.GetFamily()):
			return false
		}
	}
	return true
}

func (a *Allocator) anyReserved(family corev1.IPFamily) bool {
	for name := range a.reserves {
		if a.countOf(name, family) > 0 {
			return true
		}
	}
	return false
}

// releaseReserved notes that owners of values that are still in reserves were deleted, as the real
// allocator does. The values stay in their reserves and are recalled, because a release may be late: the
// holder may have got the value again and given it to another owner since then.
func (a *Allocator) releaseReserved(owners []*allocatorv1.OwnerSlots, answer *allocatorv1.ReleaseResponse) {
	for _, owner := range owners {
		for _, value := range owner.GetValues() {
			if h := a.holders[value]; h.grant != 0 {
				h.released = owner.GetOwnerUid()
				a.holders[value] = h
				a.recallValue(value)
				answer.Released++
			}
		}
	}
}
