package allocatortest

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
)

// ClosedHolder is the name of a holder without a Lease in the registry. The suite expects an allocator
// under test to find a Lease for every other holder.
const ClosedHolder = "portolan-reserve-closed"

const (
	reasonAtHand = allocatorv1.FailureReason_FAILURE_REASON_AT_HAND
	familyIPv4   = corev1.IPFamily_IP_FAMILY_IPV4
	holderA      = "portolan-reserve-a"
	holderB      = "portolan-reserve-b"
)

// reserveCases are the rules of reserves.
var reserveCases = []suiteCase{
	{"values at hand are nobody else's", (*suite).reserved},
	{"values at hand are settled and returned under their grant", (*suite).settled},
	{"a released value leaves its reserve", (*suite).releasedReserved},
	{"a value asked for is recalled", (*suite).recalled},
	{"who waits gets the value that comes back", (*suite).waiting},
	{"a pool with values at hand is not full", (*suite).fullOrAtHand},
	{"values of lost answers are taken back", (*suite).lostAnswers},
	{"a closed reserve is closed", (*suite).closedReserve},
	{"a draining and a shrinking pool get their values back", (*suite).reservesOfPools},
	{"wrong calls of reserves are refused", (*suite).invalidReserve},
}

func wish(count uint32) []*allocatorv1.ReserveWish {
	return []*allocatorv1.ReserveWish{{Use: useIP, Family: familyIPv4, Count: count}}
}

// reserve makes a call that must be served.
func (s *suite) reserve(req *allocatorv1.ReserveRequest) *allocatorv1.ReserveResponse {
	s.Helper()
	resp, err := s.client.Reserve(s.Context(), req)
	if err != nil {
		s.Fatalf("Reserve: %v", err)
	}
	return resp
}

// grant returns so many values for a holder.
func (s *suite) grant(holder string, count uint32) []*allocatorv1.ReservedValue {
	s.Helper()
	granted := s.reserve(&allocatorv1.ReserveRequest{Holder: holder, Wishes: wish(count)}).GetGranted()
	if len(granted) != int(count) {
		s.Fatalf("%d values for %s, want %d", len(granted), holder, count)
	}
	return granted
}

func settle(v *allocatorv1.ReservedValue, uid string, confirmed bool) *allocatorv1.Settlement {
	return &allocatorv1.Settlement{Value: v.GetValue(), Grant: v.GetGrant(), Owner: owner(uid), Slot: "ip", Confirmed: confirmed}
}

func (s *suite) wantFill(name string, used, reserved, resting uint64) {
	s.Helper()
	if p := s.fill(name); p.GetUsed() != used || p.GetReserved() != reserved || p.GetResting() != resting {
		s.Errorf("pool %v, want %d used, %d reserved and %d resting", p, used, reserved, resting)
	}
}

func (s *suite) reserved() {
	s.pool("ips", useIP, "10.96.0.0/24") // 238 of the upper band
	resp := s.reserve(&allocatorv1.ReserveRequest{Holder: holderA, Wishes: wish(5)})
	if resp.GetLease().AsDuration() <= 0 || len(resp.GetLimits()) != 1 || resp.GetLimits()[0].GetCount() < 5 || resp.GetLimits()[0].GetFamily() != familyIPv4 {
		s.Errorf("answer %v, want a lease and a limit", resp)
	}
	seen := map[string]bool{}
	for _, v := range slices.Concat(resp.GetGranted(), s.grant(holderB, 5)) {
		if seen[v.GetValue()] || v.GetGrant() == 0 || v.GetFamily() != familyIPv4 {
			s.Errorf("granted %v, after %v", v, seen)
		}
		seen[v.GetValue()] = true
	}
	for i := range 100 {
		if v := s.must(fmt.Sprint("o", i), claim("ip", useIP, "")); seen[v] {
			s.Fatalf("%s is at hand, and was allocated", v)
		}
	}
	s.wantFill("ips", 100, 10, 0)
	lines := s.listed(holderA)
	if len(lines) != 5 || !strings.HasSuffix(lines[0], "ALLOCATION_STATE_RESERVED") {
		s.Errorf("listed %q, want 5 values of the reserve", lines)
	}
	if all := s.listed(""); len(all) != 110 {
		s.Errorf("%d allocations are listed, want 110", len(all))
	}
}

func (s *suite) settled() {
	s.pool("ips", useIP, "10.96.0.0/24")
	v := s.grant(holderA, 4)
	later := &allocatorv1.ReservedValue{Value: v[3].GetValue(), Grant: v[3].GetGrant() + 1}
	resp := s.reserve(&allocatorv1.ReserveRequest{
		Holder:   holderA,
		Settled:  []*allocatorv1.Settlement{settle(v[0], "a", true), settle(v[1], "b", false), settle(later, "z", true)},
		Returned: []*allocatorv1.ReservedValue{v[2], v[2], later},
	})
	if resp.GetIgnored() != 3 || len(resp.GetGranted()) != 0 {
		s.Errorf("answer %v, want 3 ignored", resp)
	}
	s.wantFill("ips", 2, 1, 0)
	want := []string{"ips " + v[0].GetValue() + " ip ALLOCATION_STATE_CONFIRMED"}
	if got := s.listed("a"); !slices.Equal(got, want) {
		s.Errorf("settled %q, want %q", got, want)
	}
	want = []string{"ips " + v[1].GetValue() + " ip ALLOCATION_STATE_HELD"}
	if got := s.listed("b"); !slices.Equal(got, want) {
		s.Errorf("settled with an unknown outcome %q, want %q", got, want)
	}
	s.refused("c", claim("ip", useIP, v[0].GetValue()), reasonAllocated, "")
}

func (s *suite) releasedReserved() {
	s.pool("ips", useIP, "10.96.0.0/24")
	v := s.grant(holderA, 2)
	req := &allocatorv1.ReleaseRequest{Owners: []*allocatorv1.OwnerSlots{{OwnerUid: "a", Values: []string{v[0].GetValue(), "10.96.0.3"}}}}
	for _, want := range []uint32{1, 0} {
		if resp, err := s.client.Release(s.Context(), req); err != nil || resp.GetReleased() != want {
			s.Errorf("released %v, %v; want %d", resp, err, want)
		}
	}
	s.wantFill("ips", 0, 2, 0)
	if resp := s.reserve(&allocatorv1.ReserveRequest{Holder: holderA, Settled: []*allocatorv1.Settlement{settle(v[0], "a", true)}}); resp.GetIgnored() != 0 {
		s.Errorf("the late settlement: %v", resp)
	}
	s.wantFill("ips", 0, 1, 1)
	req.Owners[0].Values = []string{"http"}
	_, err := s.client.Release(s.Context(), req)
	s.wantCode("release of a value that is none", err, codes.InvalidArgument)
}

func (s *suite) recalled() {
	s.pool("ips", useIP, "10.96.0.0/24")
	v := s.grant(holderA, 3)
	s.refused("a", claim("ip", useIP, v[1].GetValue()), reasonAtHand, "")
	resp := s.reserve(&allocatorv1.ReserveRequest{Holder: holderA, Wishes: wish(3)})
	if len(resp.GetRecalled()) != 1 || resp.GetRecalled()[0].GetValue() != v[1].GetValue() || resp.GetRecalled()[0].GetGrant() != v[1].GetGrant() {
		s.Fatalf("recalled %v, want %v", resp.GetRecalled(), v[1])
	}
	resp = s.reserve(&allocatorv1.ReserveRequest{Holder: holderA, Returned: resp.GetRecalled(), Wishes: wish(8)})
	for _, g := range resp.GetGranted() {
		if g.GetValue() == v[1].GetValue() {
			s.Errorf("%v was granted again", g)
		}
	}
	if got := s.must("a", claim("ip", useIP, v[1].GetValue())); got != v[1].GetValue() {
		s.Errorf("got %s", got)
	}
	r := s.allocate("b", claim("x", useIP, v[0].GetValue()), claim("y", useIP, "192.0.2.1"))
	if f := r.GetFailures(); len(f) != 1 || f[0].GetSlot() != "y" {
		s.Errorf("failures %v, want only the one that waiting does not help", f)
	}
}

// waiting lets a claim wait for a value that its holder returns meanwhile.
func (s *suite) waiting() {
	s.pool("ips", useIP, "10.96.0.0/24")
	v := s.grant(holderA, 3)
	done := make(chan *allocatorv1.AllocateResponse)
	go func() {
		defer close(done)
		resp, err := s.client.Allocate(s.Context(), &allocatorv1.AllocateRequest{Wait: true, Sets: []*allocatorv1.ClaimSet{
			{Owner: owner("a"), Claims: []*allocatorv1.Claim{claim("ip", useIP, v[2].GetValue())}},
			{Owner: owner("b"), Claims: []*allocatorv1.Claim{claim("ip", useIP, "")}},
		}})
		if err != nil {
			s.Errorf("allocate: %v", err)
		}
		done <- resp
	}()
	var recalled []*allocatorv1.ReservedValue
	for len(recalled) == 0 {
		recalled = s.reserve(&allocatorv1.ReserveRequest{Holder: holderA}).GetRecalled()
	}
	s.reserve(&allocatorv1.ReserveRequest{Holder: holderA, Returned: recalled})
	resp := <-done
	if len(resp.GetResults()) != 2 {
		s.Fatalf("got %v", resp)
	}
	if got := resp.GetResults()[0].GetValues(); !slices.Equal(got, []string{v[2].GetValue()}) || len(resp.GetResults()[1].GetValues()) != 1 {
		s.Errorf("got %v, want %s and another", resp, v[2].GetValue())
	}
	s.wantFill("ips", 2, 2, 0)
}

func (s *suite) fullOrAtHand() {
	s.pool("ips", useIP, "10.96.0.0/24")
	v := s.grant(holderA, 2)
	for i := range 252 {
		s.must(fmt.Sprint("o", i), claim("ip", useIP, ""))
	}
	s.refused("late", claim("ip", useIP, ""), reasonAtHand, "")
	resp := s.reserve(&allocatorv1.ReserveRequest{Holder: holderA, Wishes: wish(5)})
	if len(resp.GetGranted()) != 0 || resp.GetLimits()[0].GetCount() != 0 || len(resp.GetRecalled()) != 2 {
		s.Errorf("answer %v, want that nothing may be kept", resp)
	}
	s.reserve(&allocatorv1.ReserveRequest{Holder: holderA, Returned: v[:1], Settled: []*allocatorv1.Settlement{settle(v[1], "a", true)}})
	if got := s.must("late", claim("ip", useIP, "")); got != v[0].GetValue() {
		s.Errorf("got %s, want the returned %s", got, v[0].GetValue())
	}
	s.refused("later", claim("ip", useIP, ""), reasonFull, "")
}

func (s *suite) lostAnswers() {
	s.pool("ips", useIP, "10.96.0.0/24")
	first := s.reserve(&allocatorv1.ReserveRequest{Holder: holderA, Call: 1, Wishes: wish(3)}).GetGranted()
	if len(first) != 3 {
		s.Fatalf("granted %v", first)
	}
	s.reserve(&allocatorv1.ReserveRequest{Holder: holderA, Call: 2, Received: first[0].GetGrant(), Wishes: wish(5)})
	again := s.reserve(&allocatorv1.ReserveRequest{Holder: holderA, Call: 3, Received: first[0].GetGrant(), Wishes: wish(5)}).GetGranted()
	if len(again) != 2 {
		s.Errorf("granted %v after a lost answer, want 2", again)
	}
	s.wantFill("ips", 0, 5, 0)
	_, err := s.client.Reserve(s.Context(), &allocatorv1.ReserveRequest{Holder: holderA, Call: 2, Received: first[0].GetGrant(), Wishes: wish(5)})
	s.wantCode("a call that was overtaken", err, codes.Aborted)
	s.wantFill("ips", 0, 5, 0)
}

func (s *suite) closedReserve() {
	s.pool("ips", useIP, "10.96.0.0/24")
	_, err := s.client.Reserve(s.Context(), &allocatorv1.ReserveRequest{Holder: ClosedHolder, Wishes: wish(1)})
	s.wantCode("a reserve without a Lease", err, codes.FailedPrecondition)
	v := s.grant(holderA, 3)
	resp := s.reserve(&allocatorv1.ReserveRequest{Holder: holderA, Close: true, Returned: v[:1], Settled: []*allocatorv1.Settlement{settle(v[1], "a", true)}, Wishes: wish(5)})
	if len(resp.GetGranted()) != 0 || resp.GetIgnored() != 0 {
		s.Errorf("answer to the last call: %v", resp)
	}
	s.wantFill("ips", 1, 0, 1)
	if resp := s.reserve(&allocatorv1.ReserveRequest{Holder: holderA, Close: true, Returned: v[:1]}); resp.GetIgnored() != 1 {
		s.Errorf("closed twice: %v", resp)
	}
}

func (s *suite) reservesOfPools() {
	s.pool("ips", useIP, "10.96.0.0/24")
	for name, p := range map[string]*allocatorv1.Pool{
		"draining":      {Name: "ips", State: allocatorv1.PoolState_POOL_STATE_DRAINING},
		"smaller range": {Name: "ips", State: allocatorv1.PoolState_POOL_STATE_ACTIVE, Range: "10.96.0.0/28"},
	} {
		s.update(&allocatorv1.Pool{Name: "ips", State: allocatorv1.PoolState_POOL_STATE_ACTIVE, Range: "10.96.0.0/24"})
		s.grant(holderA, 3)
		done := make(chan struct{})
		go func() {
			defer close(done)
			resp, err := s.client.UpdatePool(s.Context(), &allocatorv1.UpdatePoolRequest{Pool: p})
			s.wantCode(name, err, codes.OK)
			if n := resp.GetPool().GetReserved(); n != 0 {
				s.Errorf("%s: %d values are at hand after it", name, n)
			}
		}()
		resp := &allocatorv1.ReserveResponse{}
		for len(resp.GetRecalled()) == 0 {
			resp = s.reserve(&allocatorv1.ReserveRequest{Holder: holderA})
		}
		if len(resp.GetRecalled()) != 3 {
			s.Errorf("%s: recalled %v, want all 3", name, resp.GetRecalled())
		}
		s.reserve(&allocatorv1.ReserveRequest{Holder: holderA, Returned: resp.GetRecalled()})
		<-done
		s.wantFill("ips", 0, 0, s.fill("ips").GetResting())
	}
	s.update(&allocatorv1.Pool{Name: "ips", State: allocatorv1.PoolState_POOL_STATE_DRAINING})
	resp := s.reserve(&allocatorv1.ReserveRequest{Holder: holderA, Wishes: wish(5)})
	if len(resp.GetGranted()) != 0 || resp.GetLimits()[0].GetCount() != 0 {
		s.Errorf("granted of a draining pool: %v", resp)
	}
}

func (s *suite) invalidReserve() {
	s.pool("ips", useIP, "10.96.0.0/24")
	ok := func() *allocatorv1.ReservedValue { return &allocatorv1.ReservedValue{Value: "10.96.0.77", Grant: 1} }
	for name, req := range map[string]*allocatorv1.ReserveRequest{
		"no holder":            {},
		"another kind of name": {Holder: "endpointctl"},
		"a long holder":        {Holder: holderA + strings.Repeat("x", 600)},
		"node ports":           {Holder: holderA, Wishes: []*allocatorv1.ReserveWish{{Use: usePort, Family: familyIPv4, Count: 1}}},
		"no family":            {Holder: holderA, Wishes: []*allocatorv1.ReserveWish{{Use: useIP, Count: 1}}},
		"two wishes":           {Holder: holderA, Wishes: append(wish(1), wish(1)...)},
		"too many values":      {Holder: holderA, Wishes: wish(4097)},
		"too many settlements": {Holder: holderA, Settled: slices.Repeat([]*allocatorv1.Settlement{settle(ok(), "a", true)}, 1001)},
		"too many returns":     {Holder: holderA, Returned: slices.Repeat([]*allocatorv1.ReservedValue{ok()}, 5001)},
		"no address":           {Holder: holderA, Returned: []*allocatorv1.ReservedValue{{Value: "http", Grant: 1}}},
		"no grant":             {Holder: holderA, Returned: []*allocatorv1.ReservedValue{{Value: "10.96.0.77"}}},
		"no owner":             {Holder: holderA, Settled: []*allocatorv1.Settlement{{Value: "10.96.0.77", Grant: 1, Slot: "ip"}}},
		"no slot":              {Holder: holderA, Settled: []*allocatorv1.Settlement{{Value: "10.96.0.77", Grant: 1, Owner: owner("a")}}},
		"a later grant":        {Holder: holderA, Call: 1, Received: 2},
		"a reserve as owner": {Holder: holderA, Settled: []*allocatorv1.Settlement{
			{Value: "10.96.0.77", Grant: 1, Slot: "ip", Owner: &allocatorv1.Owner{Uid: holderB, Kind: "Reserve"}},
		}},
	} {
		_, err := s.client.Reserve(s.Context(), req)
		s.wantCode(name, err, codes.InvalidArgument)
	}
	set := &allocatorv1.ClaimSet{Owner: &allocatorv1.Owner{Uid: holderB, Kind: "Reserve"}, Claims: []*allocatorv1.Claim{claim("grant/1", useIP, "")}}
	_, err := s.client.Allocate(s.Context(), &allocatorv1.AllocateRequest{Sets: []*allocatorv1.ClaimSet{set}})
	s.wantCode("an allocation for a reserve", err, codes.InvalidArgument)
	s.wantFill("ips", 0, 0, 0)
}
