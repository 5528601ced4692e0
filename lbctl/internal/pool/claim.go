package pool

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// attempt is a wish with the remaining ways to claim an address for it, the best first.
type attempt struct {
	wish
	ways []way
	last *allocatorv1.ClaimFailure
	from string // UID of the owner from which the value of the best way moves, or ""
}

// way is one way to claim an address: a certain address, or any address of a pool.
type way struct{ value, pool string }

// claim claims the addresses of a service, and returns the wishes with the values that were granted.
// A wish that is optional is left out if no pool can grant it, unless no wish is left. inUse is set if other services
// share the addresses of the owner.
func (p *Provider) claim(ctx context.Context, svc *corev1.Service, owner spec.AddressOwner, wishes []wish, inUse bool) ([]wish, error) {
	pools, attempts, err := p.attempts(ctx, svc, wishes)
	if err != nil {
		return nil, err
	}
	locked := owner.Kind == spec.KindAddressShare // by the caller
	for {
		if attempts, err = giveUp(svc, attempts); err != nil {
			return nil, err
		}
		values, failures, err := p.allocate(ctx, owner, attempts)
		if err != nil {
			return nil, err
		}
		if len(failures) == 0 {
			all := granted(attempts, values)
			return all, p.releaseUnlessInternal(ctx, pools, owner, all, inUse)
		}
		if !locked && slices.ContainsFunc(attempts, func(a attempt) bool { return keepsOwn(a, failures) }) {
			locked = true
			p.cfg.Shares.mu.Lock() // so that no service joins the share that the address moves from
			defer p.cfg.Shares.mu.Unlock()
		}
		if p.takeOver(svc, attempts, failures) {
			continue
		}
		for i := range attempts {
			if f := failures[attempts[i].slot]; f != nil {
				attempts[i].last, attempts[i].ways, attempts[i].from = f, attempts[i].ways[1:], ""
			}
		}
	}
}

// releaseUnlessInternal returns an error if a service that asks for an internal load balancer was granted an
// address of another pool. An earlier call has claimed that address, and the service asked for an internal one
// before its status had the address. So the address is not in use, unless other services share it. It is released,
// and the next call claims an internal address.
func (p *Provider) releaseUnlessInternal(ctx context.Context, pools *choice, owner spec.AddressOwner, all []wish, inUse bool) error {
	var slots []string
	for _, g := range all {
		err := pools.checkKept(g.value)
		if err != nil && inUse {
			return err
		}
		if err != nil {
			slots = append(slots, g.slot)
		}
	}
	if len(slots) == 0 {
		return nil
	}
	if _, err := p.cfg.Allocator.Release(ctx, &allocatorv1.ReleaseRequest{Owners: []*allocatorv1.OwnerSlots{{OwnerUid: owner.UID, Slots: slots}}}); err != nil {
		return err
	}
	return status.Error(codes.Unavailable, "the service asks for an internal load balancer by now; the address that it did not use yet is released")
}

// attempts returns the ways to claim each wish. A requested address is the only way. Otherwise the service's
// present address comes first, so that it stays as long as possible.
func (p *Provider) attempts(ctx context.Context, svc *corev1.Service, wishes []wish) (*choice, []attempt, error) {
	resp, err := p.cfg.Allocator.ListPools(ctx, &allocatorv1.ListPoolsRequest{})
	if err != nil {
		return nil, nil, err
	}
	pools, err := choose(svc, &p.cfg.Rules, resp.GetPools())
	if err != nil {
		return nil, nil, err
	}
	attempts := make([]attempt, len(wishes))
	for i, w := range wishes {
		attempts[i] = attempt{wish: w}
		if w.value != "" {
			if err := pools.check(w.value); err != nil {
				return nil, nil, err
			}
			attempts[i].ways = []way{{value: w.value}}
			continue
		}
		if w.has != "" {
			if err := pools.checkKept(w.has); err != nil {
				return nil, nil, err
			}
			attempts[i].ways = append(attempts[i].ways, way{value: w.has})
		}
		var others []way
		for _, name := range pools.of(w.family) {
			others = append(others, way{pool: name})
		}
		if w.newest { // which the allocator grants for a claim without a value
			attempts[i].ways = append(others, attempts[i].ways...)
		} else {
			attempts[i].ways = append(attempts[i].ways, others...)
		}
	}
	return pools, attempts, nil
}

// giveUp removes the optional attempts that have no way left. It returns an error if a required attempt has no
// way left, or if no attempt remains.
func giveUp(svc *corev1.Service, attempts []attempt) ([]attempt, error) {
	var left []attempt
	var missed error
	for _, a := range attempts {
		switch {
		case len(a.ways) > 0:
			left = append(left, a)
		case a.optional:
			missed = failure(svc, a)
		default:
			return nil, failure(svc, a)
		}
	}
	if len(left) == 0 {
		return nil, missed
	}
	return left, nil
}

// failure returns the error of an attempt that has no way left, with the remedy.
func failure(svc *corev1.Service, a attempt) error {
	f := a.last
	switch {
	case f == nil:
		return status.Errorf(codes.ResourceExhausted, "no pool can give the service %s: create a pool of load-balancer addresses of the family %s (portolan pool create NAME --use load-balancer-ip --range …), or name one by the annotation %s",
			a.describe(), spec.EnumName(a.family), object.AnnotationBalancerPool)
	case f.GetReason() == allocatorv1.FailureReason_FAILURE_REASON_FULL:
		return status.Errorf(codes.ResourceExhausted, "no pool has %s left: enlarge a pool, create one, or delete a service; it is tried again then", a.describe())
	case f.GetReason() == allocatorv1.FailureReason_FAILURE_REASON_ALLOCATED:
		return status.Errorf(codes.FailedPrecondition, "%s belongs to another service: request another address, or share it by the same value of the annotation %s at both services (%s has %q)",
			a.describe(), object.AnnotationBalancerShare, svc.GetMetadata().GetName(), spec.SharingKey(svc))
	case f.GetReason() == allocatorv1.FailureReason_FAILURE_REASON_NOT_IN_RANGE:
		return status.Errorf(codes.ResourceExhausted, "%s: %s", a.describe(), f.GetMessage())
	}
	return status.Errorf(codes.FailedPrecondition, "%s: %s", a.describe(), f.GetMessage())
}

// allocate claims the best way of each attempt. The allocator grants all of them or none.
func (p *Provider) allocate(ctx context.Context, owner spec.AddressOwner, attempts []attempt) (values []string, failures map[string]*allocatorv1.ClaimFailure, err error) {
	set := &allocatorv1.ClaimSet{Owner: &allocatorv1.Owner{Uid: owner.UID, Kind: owner.Kind, Namespace: owner.Namespace, Name: owner.Name}}
	for _, a := range attempts {
		set.Claims = append(set.Claims, &allocatorv1.Claim{
			Slot: a.slot, Use: allocatorv1.Use_USE_LOAD_BALANCER_IP, Family: a.family, Value: a.ways[0].value, Pool: a.ways[0].pool, MovesFrom: a.from,
		})
	}
	resp, err := p.cfg.Allocator.Allocate(ctx, &allocatorv1.AllocateRequest{Sets: []*allocatorv1.ClaimSet{set}})
	if err != nil {
		return nil, nil, err
	}
	if len(resp.GetResults()) != 1 {
		return nil, nil, status.Errorf(codes.Internal, "the allocator answered one set of claims with %d results", len(resp.GetResults()))
	}
	result := resp.GetResults()[0]
	failures = map[string]*allocatorv1.ClaimFailure{}
	for _, f := range result.GetFailures() {
		failures[f.GetSlot()] = f
	}
	if len(failures) == 0 && len(result.GetValues()) != len(attempts) {
		return nil, nil, status.Errorf(codes.Internal, "the allocator answered %d claims with %d values", len(attempts), len(result.GetValues()))
	}
	for slot := range failures {
		if !slices.ContainsFunc(attempts, func(a attempt) bool { return a.slot == slot }) {
			return nil, nil, status.Errorf(codes.Internal, "the allocator refused the slot %q, which was not claimed", slot)
		}
	}
	return result.GetValues(), failures, nil
}

// keepsOwn reports whether an attempt failed because the service's present address has another owner. That owner
// may be the service itself, from the time before it shared addresses, or a share that it has left.
func keepsOwn(a attempt, failures map[string]*allocatorv1.ClaimFailure) bool {
	return a.ways[0].value != "" && a.ways[0].value == a.has &&
		failures[a.slot].GetReason() == allocatorv1.FailureReason_FAILURE_REASON_ALLOCATED
}

// takeOver has the present addresses of a service move to their new owner if nothing else uses them: the service owned
// them itself before it shared addresses, or the share that owns them has no other service. It reports whether an
// attempt has changed. The allocator moves an address in one step, so that no other service gets it in between. The
// caller holds the lock of the shares.
func (p *Provider) takeOver(svc *corev1.Service, attempts []attempt, failures map[string]*allocatorv1.ClaimFailure) (changed bool) {
	uid := svc.GetMetadata().GetUid()
	for i := range attempts {
		a := &attempts[i]
		if !keepsOwn(*a, failures) {
			continue
		}
		owner := failures[a.slot].GetOwner()
		isEmptyShare := owner.GetKind() == spec.KindAddressShare && owner.GetNamespace() == svc.GetMetadata().GetNamespace() &&
			len(p.cfg.Shares.members(owner.GetUid(), uid)) == 0
		if (owner.GetUid() == uid || isEmptyShare) && a.from != owner.GetUid() {
			a.from, changed = owner.GetUid(), true
		}
	}
	return changed
}

// granted returns the wishes with the values that the allocator has granted.
func granted(attempts []attempt, values []string) []wish {
	all := make([]wish, len(attempts))
	for i, a := range attempts {
		all[i] = a.wish
		all[i].value = values[i]
	}
	return all
}

// Digest returns a number that changes whenever a pool of load-balancer addresses is made, changed or
// deleted, or has more or fewer free addresses, by one call of the allocator.
func (p *Provider) Digest(ctx context.Context) (uint64, error) {
	resp, err := p.cfg.Allocator.ListPools(ctx, &allocatorv1.ListPoolsRequest{})
	if err != nil {
		return 0, err
	}
	sum := fnv.New64a()
	for _, pool := range resp.GetPools() {
		if pool.GetUse() == allocatorv1.Use_USE_LOAD_BALANCER_IP {
			fmt.Fprintln(sum, pool.GetName(), pool.GetRange(), pool.GetState(), pool.GetUsed())
		}
	}
	return sum.Sum64(), nil
}
