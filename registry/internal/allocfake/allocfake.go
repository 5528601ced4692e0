package allocfake

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
)

// Allocator is an in-memory allocator.
type Allocator struct {
	allocatorv1.UnimplementedAllocatorServiceServer

	mu       sync.Mutex
	changed  *sync.Cond // some value was returned
	pools    []pool
	holders  map[string]holder // by value
	away     bool
	epoch    string // of the registry's log
	most     int    // values of one pool in one reserve; 0: no reserves
	reserves map[string]*reserve
	awaited  map[string]int // claims that wait for a value in a reserve
	calls    Calls
}

// Calls are the numbers of calls of an allocator that were not refused because it was away.
type Calls struct{ Allocate, Reserve int }

type pool struct {
	use    allocatorv1.Use
	family corev1.IPFamily
	values []string
	text   string
}

type holder struct {
	owner     string
	slots     []string
	confirmed bool
	grant     uint64 // the value is in the reserve of the owner, under this grant
	// released is the UID of an owner that had the value and was deleted before the holder of the
	// reserve settled it.
	released string
}

// New returns an allocator with size addresses of each range, beginning with the first usable
// address, and size node ports from 30000 on.
func New(size int, ranges ...string) *Allocator {
	a := &Allocator{holders: map[string]holder{}, reserves: map[string]*reserve{}, awaited: map[string]int{}}
	a.changed = sync.NewCond(&a.mu)
	for _, text := range ranges {
		p := pool{use: allocatorv1.Use_USE_CLUSTER_IP, family: corev1.IPFamily_IP_FAMILY_IPV4, text: text}
		addr := netip.MustParsePrefix(text).Masked().Addr()
		if addr.Is6() {
			p.family = corev1.IPFamily_IP_FAMILY_IPV6
		}
		for range size {
			addr = addr.Next()
			p.values = append(p.values, addr.String())
		}
		a.pools = append(a.pools, p)
	}
	ports := pool{use: allocatorv1.Use_USE_NODE_PORT, text: fmt.Sprintf("30000-%d", 30000+size-1)}
	for port := range size {
		ports.values = append(ports.values, strconv.Itoa(30000+port))
	}
	a.pools = append(a.pools, ports)
	return a
}

// Register registers the service.
func (a *Allocator) Register(server grpc.ServiceRegistrar) {
	allocatorv1.RegisterAllocatorServiceServer(server, a)
}

// SetAway makes every call fail with UNAVAILABLE while away is true.
func (a *Allocator) SetAway(away bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.away = away
}

// Values returns the values of an owner, sorted.
func (a *Allocator) Values(uid string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var values []string
	for value, h := range a.holders {
		if h.owner == uid {
			values = append(values, value)
		}
	}
	slices.Sort(values)
	return values
}

// Held returns the allocated values of services that are not confirmed.
func (a *Allocator) Held() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var values []string
	for value, h := range a.holders {
		if !h.confirmed && h.grant == 0 {
			values = append(values, value)
		}
	}
	return values
}

// Used returns the number of allocated values, without those in reserves.
func (a *Allocator) Used() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	used := 0
	for _, h := range a.holders {
		if h.grant == 0 {
			used++
		}
	}
	return used
}

// Calls returns how often the allocator was called.
func (a *Allocator) Calls() Calls {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls
}

func (a *Allocator) lock() error {
	a.mu.Lock()
	if !a.away {
		return nil
	}
	a.mu.Unlock()
	return status.Error(codes.Unavailable, "the allocator is away")
}

// Allocate implements the service.
func (a *Allocator) Allocate(_ context.Context, req *allocatorv1.AllocateRequest) (*allocatorv1.AllocateResponse, error) {
	if err := a.lock(); err != nil {
		return nil, err
	}
	defer a.mu.Unlock()
	a.calls.Allocate++
	answer := &allocatorv1.AllocateResponse{LogEpoch: a.epoch}
	for _, set := range req.GetSets() {
		answer.Results = append(answer.Results, a.serveWithReserves(set, req.GetDryRun()))
	}
	return answer, nil
}

func (a *Allocator) serve(set *allocatorv1.ClaimSet, dryRun bool) *allocatorv1.ClaimSetResult {
	result := &allocatorv1.ClaimSetResult{}
	fresh := map[string]holder{}
	for _, claim := range set.GetClaims() {
		value, reason, why := a.pick(set.GetOwner().GetUid(), claim, fresh)
		if why != "" {
			result.Failures = append(result.Failures, &allocatorv1.ClaimFailure{Slot: claim.GetSlot(), Reason: reason, Message: why})
			continue
		}
		fresh[value] = a.holders[value].with(set.GetOwner().GetUid(), claim.GetSlot())
		result.Values = append(result.Values, value)
	}
	if len(result.GetFailures()) > 0 {
		return &allocatorv1.ClaimSetResult{Failures: result.GetFailures()}
	}
	for value, h := range fresh {
		if !dryRun {
			a.holders[value] = h
		}
	}
	return result
}

// with returns the holder with an additional slot, unless it already has it.
func (h holder) with(owner, slot string) holder {
	h.owner = owner
	if !slices.Contains(h.slots, slot) {
		h.slots = append(slices.Clone(h.slots), slot)
	}
	return h
}

// without returns the holder without the given slots. An empty list stands for all slots.
func (h holder) without(slots []string) holder {
	h.slots = slices.DeleteFunc(slices.Clone(h.slots), func(slot string) bool { return len(slots) == 0 || slices.Contains(slots, slot) })
	return h
}

func (a *Allocator) pick(uid string, claim *allocatorv1.Claim, fresh map[string]holder) (string, allocatorv1.FailureReason, string) {
	for value, h := range a.holders {
		if h.owner == uid && slices.Contains(h.slots, claim.GetSlot()) {
			return value, 0, ""
		}
	}
	i := slices.IndexFunc(a.pools, func(p pool) bool { return p.use == claim.GetUse() && p.family == claim.GetFamily() })
	if i < 0 {
		return "", allocatorv1.FailureReason_FAILURE_REASON_INVALID, "no such pool"
	}
	free := func(value string) bool {
		_, taken := a.holders[value]
		_, taking := fresh[value]
		return !taken && !taking
	}
	wanted := claim.GetValue()
	if wanted != "" && a.holders[wanted].owner == uid {
		return wanted, 0, ""
	}
	switch {
	case wanted == "":
	case !slices.Contains(a.pools[i].values, wanted):
		return "", allocatorv1.FailureReason_FAILURE_REASON_NOT_IN_RANGE, fmt.Sprintf("%s is not in the valid range %s", wanted, a.pools[i].text)
	case !free(wanted):
		return "", allocatorv1.FailureReason_FAILURE_REASON_ALLOCATED, "provided value is already allocated"
	default:
		return wanted, 0, ""
	}
	for _, value := range a.pools[i].values {
		if free(value) {
			return value, 0, ""
		}
	}
	return "", allocatorv1.FailureReason_FAILURE_REASON_FULL, "range is full"
}

// each calls fn with every value of the owners that has one of the named slots, and with these
// slots. An empty list stands for all slots.
func (a *Allocator) each(owners []*allocatorv1.OwnerSlots, fn func(value string, h holder, slots []string)) {
	for _, owner := range owners {
		for value, h := range a.holders {
			if h.owner == owner.GetOwnerUid() && len(h.without(owner.GetSlots()).slots) < len(h.slots) {
				fn(value, h, owner.GetSlots())
			}
		}
	}
}

// Confirm implements the service.
func (a *Allocator) Confirm(_ context.Context, req *allocatorv1.ConfirmRequest) (*allocatorv1.ConfirmResponse, error) {
	if err := a.lock(); err != nil {
		return nil, err
	}
	defer a.mu.Unlock()
	answer := &allocatorv1.ConfirmResponse{}
	a.each(req.GetOwners(), func(value string, h holder, _ []string) {
		h.confirmed = true
		a.holders[value] = h
		answer.Confirmed++
	})
	return answer, nil
}

// Release implements the service.
func (a *Allocator) Release(_ context.Context, req *allocatorv1.ReleaseRequest) (*allocatorv1.ReleaseResponse, error) {
	if err := a.lock(); err != nil {
		return nil, err
	}
	defer a.mu.Unlock()
	answer := &allocatorv1.ReleaseResponse{}
	a.releaseReserved(req.GetOwners(), answer)
	a.each(req.GetOwners(), func(value string, h holder, slots []string) {
		if a.holders[value] = h.without(slots); len(a.holders[value].slots) == 0 {
			delete(a.holders, value)
			answer.Released++
		}
	})
	return answer, nil
}

// ListPools implements the service.
func (a *Allocator) ListPools(context.Context, *allocatorv1.ListPoolsRequest) (*allocatorv1.ListPoolsResponse, error) {
	if err := a.lock(); err != nil {
		return nil, err
	}
	defer a.mu.Unlock()
	answer := &allocatorv1.ListPoolsResponse{}
	for _, p := range a.pools {
		answer.Pools = append(answer.Pools, &allocatorv1.Pool{Use: p.use, Range: p.text})
	}
	return answer, nil
}

// ListAllocations implements the service, without pages.
func (a *Allocator) ListAllocations(_ context.Context, req *allocatorv1.ListAllocationsRequest) (*allocatorv1.ListAllocationsResponse, error) {
	if err := a.lock(); err != nil {
		return nil, err
	}
	defer a.mu.Unlock()
	answer := &allocatorv1.ListAllocationsResponse{}
	a.each([]*allocatorv1.OwnerSlots{{OwnerUid: req.GetOwnerUid()}}, func(value string, h holder, _ []string) {
		for _, slot := range h.slots {
			answer.Allocations = append(answer.Allocations, &allocatorv1.Allocation{Value: value, Slot: slot, Owner: &allocatorv1.Owner{Uid: h.owner}})
		}
	})
	return answer, nil
}
