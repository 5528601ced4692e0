package pool

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	allocatorv1 "portolan.dev/api/allocator/v1"
	"portolan.dev/services/kit/kittest"
)

// fakeAllocator is an allocator in memory with the properties on which the provider relies: claims are kept by
// owner and slot, all claims of a set or none are granted, a confirmed value replaces the former value, a claim for
// another value replaces one that is not confirmed, and a value moves from an owner that gives it up.
type fakeAllocator struct {
	allocatorv1.UnimplementedAllocatorServiceServer

	mu     sync.Mutex
	pools  []*allocatorv1.Pool       // guarded by mu
	claims []*allocatorv1.Allocation // guarded by mu: in the order of the claims
	err    error                     // guarded by mu: of all calls
}

// newAllocator returns an allocator with pools "a", "b" and so on, and a client of it.
func newAllocator(t *testing.T, ranges ...string) (*fakeAllocator, allocatorv1.AllocatorServiceClient) {
	t.Helper()
	f := &fakeAllocator{}
	for i, text := range ranges {
		f.pools = append(f.pools, &allocatorv1.Pool{
			Name: string(rune('a' + i)), Use: allocatorv1.Use_USE_LOAD_BALANCER_IP, Range: text, State: allocatorv1.PoolState_POOL_STATE_ACTIVE,
		})
	}
	conn := kittest.Conn(t, func(s grpc.ServiceRegistrar) { allocatorv1.RegisterAllocatorServiceServer(s, f) })
	return f, allocatorv1.NewAllocatorServiceClient(conn)
}

// values returns the claims as "value owner slot", with "?" if they are not confirmed, sorted.
func (f *fakeAllocator) values() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, c := range f.claims {
		mark := ""
		if c.GetState() != allocatorv1.AllocationState_ALLOCATION_STATE_CONFIRMED {
			mark = "?"
		}
		all = append(all, fmt.Sprintf("%s%s %s %s", c.GetValue(), mark, c.GetOwner().GetUid(), c.GetSlot()))
	}
	slices.Sort(all)
	return all
}

func (f *fakeAllocator) ownerOf(value string) *allocatorv1.Owner {
	for _, c := range f.claims {
		if c.GetValue() == value {
			return c.GetOwner()
		}
	}
	return nil
}

// find returns a value for a claim, or the reason why there is none.
func (f *fakeAllocator) find(owner string, claim *allocatorv1.Claim) (string, allocatorv1.FailureReason) {
	if claim.GetValue() == "" {
		for _, c := range slices.Backward(f.claims) {
			if c.GetOwner().GetUid() == owner && c.GetSlot() == claim.GetSlot() {
				return c.GetValue(), 0
			}
		}
	}
	for _, p := range f.pools {
		prefix := netip.MustParsePrefix(p.GetRange())
		if claim.GetPool() != "" && claim.GetPool() != p.GetName() {
			continue
		}
		if claim.GetValue() != "" {
			if !prefix.Contains(netip.MustParseAddr(claim.GetValue())) {
				continue
			}
			if has := f.ownerOf(claim.GetValue()).GetUid(); has != "" && has != owner && has != claim.GetMovesFrom() {
				return "", allocatorv1.FailureReason_FAILURE_REASON_ALLOCATED
			}
			f.claims = slices.DeleteFunc(f.claims, func(c *allocatorv1.Allocation) bool {
				isOwn := c.GetOwner().GetUid() == owner
				moves := !isOwn && c.GetValue() == claim.GetValue()
				return moves || isOwn && c.GetSlot() == claim.GetSlot() && c.GetValue() != claim.GetValue() && c.GetState() == allocatorv1.AllocationState_ALLOCATION_STATE_HELD
			})
			return claim.GetValue(), 0
		}
		for addr := prefix.Addr().Next(); prefix.Contains(addr); addr = addr.Next() {
			if f.ownerOf(addr.String()) == nil {
				return addr.String(), 0
			}
		}
	}
	if claim.GetValue() != "" {
		return "", allocatorv1.FailureReason_FAILURE_REASON_NOT_IN_RANGE
	}
	return "", allocatorv1.FailureReason_FAILURE_REASON_FULL
}

// Allocate implements AllocatorService.
func (f *fakeAllocator) Allocate(_ context.Context, req *allocatorv1.AllocateRequest) (*allocatorv1.AllocateResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	resp := &allocatorv1.AllocateResponse{}
	for _, set := range req.GetSets() {
		before, result := slices.Clone(f.claims), &allocatorv1.ClaimSetResult{}
		for _, claim := range set.GetClaims() {
			value, reason := f.find(set.GetOwner().GetUid(), claim)
			if reason != 0 {
				result.Failures = append(result.Failures, &allocatorv1.ClaimFailure{
					Slot: claim.GetSlot(), Reason: reason, Message: "no", Owner: f.ownerOf(claim.GetValue()),
				})
				continue
			}
			result.Values = append(result.Values, value)
			known := slices.ContainsFunc(f.claims, func(c *allocatorv1.Allocation) bool {
				return c.GetOwner().GetUid() == set.GetOwner().GetUid() && c.GetSlot() == claim.GetSlot() && c.GetValue() == value
			})
			if !known {
				f.claims = append(f.claims, &allocatorv1.Allocation{
					Owner: set.GetOwner(), Slot: claim.GetSlot(), Value: value, State: allocatorv1.AllocationState_ALLOCATION_STATE_HELD,
				})
			}
		}
		if len(result.GetFailures()) > 0 {
			result.Values, f.claims = nil, before
		}
		resp.Results = append(resp.Results, result)
	}
	return resp, f.err
}

// Confirm implements AllocatorService.
func (f *fakeAllocator) Confirm(_ context.Context, req *allocatorv1.ConfirmRequest) (*allocatorv1.ConfirmResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range req.GetOwners() {
		for _, slot := range o.GetSlots() {
			f.confirm(o.GetOwnerUid(), slot)
		}
	}
	return &allocatorv1.ConfirmResponse{}, f.err
}

// confirm confirms the newest claim of a slot, and drops the others.
func (f *fakeAllocator) confirm(owner, slot string) {
	var newest *allocatorv1.Allocation
	for _, c := range f.claims {
		if c.GetOwner().GetUid() == owner && c.GetSlot() == slot {
			newest = c
		}
	}
	if newest == nil {
		return
	}
	f.claims = slices.DeleteFunc(f.claims, func(c *allocatorv1.Allocation) bool {
		return c != newest && c.GetOwner().GetUid() == owner && c.GetSlot() == slot
	})
	newest.State = allocatorv1.AllocationState_ALLOCATION_STATE_CONFIRMED
}

// Release implements AllocatorService.
func (f *fakeAllocator) Release(_ context.Context, req *allocatorv1.ReleaseRequest) (*allocatorv1.ReleaseResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range req.GetOwners() {
		f.claims = slices.DeleteFunc(f.claims, func(c *allocatorv1.Allocation) bool {
			return c.GetOwner().GetUid() == o.GetOwnerUid() && slices.Contains(o.GetSlots(), c.GetSlot())
		})
	}
	return &allocatorv1.ReleaseResponse{}, f.err
}

// ListAllocations implements AllocatorService.
func (f *fakeAllocator) ListAllocations(_ context.Context, req *allocatorv1.ListAllocationsRequest) (*allocatorv1.ListAllocationsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	resp := &allocatorv1.ListAllocationsResponse{}
	for _, c := range f.claims {
		if c.GetOwner().GetUid() == req.GetOwnerUid() {
			resp.Allocations = append(resp.Allocations, proto.CloneOf(c))
		}
	}
	return resp, f.err
}

// ListPools implements AllocatorService.
func (f *fakeAllocator) ListPools(context.Context, *allocatorv1.ListPoolsRequest) (*allocatorv1.ListPoolsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	resp := &allocatorv1.ListPoolsResponse{}
	for _, p := range f.pools {
		p = proto.CloneOf(p)
		for _, c := range f.claims {
			if netip.MustParsePrefix(p.GetRange()).Contains(netip.MustParseAddr(c.GetValue())) {
				p.Used++
			}
		}
		resp.Pools = append(resp.Pools, p)
	}
	return resp, f.err
}

// want checks the claims.
func (f *fakeAllocator) want(t *testing.T, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := f.values(); !slices.Equal(got, want) {
		t.Errorf("allocated is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
