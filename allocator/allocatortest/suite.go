package allocatortest

import (
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
)

// Open returns a client of a new allocator without pools.
type Open func(t *testing.T) allocatorv1.AllocatorServiceClient

// suiteCase is a test of the suite.
type suiteCase struct {
	name string
	test func(*suite)
}

// Run runs the suite.
func Run(t *testing.T, open Open) {
	cases := append([]suiteCase{
		{"claims are served in order and repeated claims get the same", (*suite).idempotent},
		{"a set is served wholly or not at all", (*suite).atomic},
		{"values asked for are checked", (*suite).explicit},
		{"wrong claims are refused", (*suite).invalid},
		{"dynamic values come from the upper band first", (*suite).bands},
		{"what rests in the upper band comes before the lower one", (*suite).restedBeforeStatic},
		{"a pool is full when all its values are in use", (*suite).full},
		{"a released value rests, unless asked for", (*suite).rest},
		{"release is the owner's", (*suite).release},
		{"confirm reports what is not there", (*suite).confirm},
		{"a slot that gets another value keeps the old one until confirmed", (*suite).replace},
		{"slots of one owner may share a value", (*suite).share},
		{"a value moves from the owner that gives it up", (*suite).moves},
		{"a dry run holds nothing", (*suite).dryRun},
		{"concurrent claims get different values", (*suite).concurrent},
		{"the last values go to one taker each", (*suite).last},
		{"allocations are listed in pages", (*suite).list},
		{"families are kept apart", (*suite).families},
		{"a number may have an owner for each protocol", (*suite).protocols},
		{"protocols are checked", (*suite).protocolsChecked},
		{"numbers are free by protocol", (*suite).dynamicProtocols},
		{"addresses that end in .0 or .255 are only for those who ask", (*suite).buggyIPs},
		{"pools are checked", (*suite).pools},
		{"pools grow, drain, retire and go", (*suite).poolLife},
	}, reserveCases...)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.test(&suite{T: t, client: open(t)}) })
	}
}

// suite is one test.
type suite struct {
	*testing.T
	client allocatorv1.AllocatorServiceClient
}

const (
	useIP   = allocatorv1.Use_USE_CLUSTER_IP
	usePort = allocatorv1.Use_USE_NODE_PORT
)

// pool creates a pool.
func (s *suite) pool(name string, use allocatorv1.Use, text string) *allocatorv1.Pool {
	s.Helper()
	resp, err := s.client.CreatePool(s.Context(), &allocatorv1.CreatePoolRequest{Pool: &allocatorv1.Pool{Name: name, Use: use, Range: text}})
	if err != nil {
		s.Fatalf("CreatePool %s %s: %v", name, text, err)
	}
	return resp.GetPool()
}

func (s *suite) update(p *allocatorv1.Pool) *allocatorv1.Pool {
	s.Helper()
	resp, err := s.client.UpdatePool(s.Context(), &allocatorv1.UpdatePoolRequest{Pool: p})
	if err != nil {
		s.Fatalf("UpdatePool %v: %v", p, err)
	}
	return resp.GetPool()
}

// fill returns a pool as ListPools returns it.
func (s *suite) fill(name string) *allocatorv1.Pool {
	s.Helper()
	resp, err := s.client.ListPools(s.Context(), &allocatorv1.ListPoolsRequest{})
	if err != nil {
		s.Fatal(err)
	}
	for _, p := range resp.GetPools() {
		if p.GetName() == name {
			return p
		}
	}
	s.Fatalf("there is no pool %s in %v", name, resp.GetPools())
	return nil
}

func (s *suite) wantUsed(name string, used uint64) {
	s.Helper()
	if got := s.fill(name).GetUsed(); got != used {
		s.Errorf("pool %s has %d values in use, want %d", name, got, used)
	}
}

func claim(slot string, use allocatorv1.Use, value string) *allocatorv1.Claim {
	return &allocatorv1.Claim{Slot: slot, Use: use, Value: value}
}

func owner(uid string) *allocatorv1.Owner {
	return &allocatorv1.Owner{Uid: uid, Kind: "Service", Namespace: "default", Name: "svc-" + uid}
}

func (s *suite) allocateAll(dry bool, sets ...*allocatorv1.ClaimSet) []*allocatorv1.ClaimSetResult {
	s.Helper()
	resp, err := s.client.Allocate(s.Context(), &allocatorv1.AllocateRequest{Sets: sets, DryRun: dry})
	if err != nil {
		s.Fatalf("Allocate: %v", err)
	}
	if len(resp.GetResults()) != len(sets) {
		s.Fatalf("%d results for %d sets", len(resp.GetResults()), len(sets))
	}
	return resp.GetResults()
}

func (s *suite) allocate(uid string, claims ...*allocatorv1.Claim) *allocatorv1.ClaimSetResult {
	s.Helper()
	return s.allocateAll(false, &allocatorv1.ClaimSet{Owner: owner(uid), Claims: claims})[0]
}

// must allocates one claim and returns its value.
func (s *suite) must(uid string, c *allocatorv1.Claim) string {
	s.Helper()
	r := s.allocate(uid, c)
	if len(r.GetFailures()) > 0 || len(r.GetValues()) != 1 {
		s.Fatalf("allocate %v for %s: %v", c, uid, r)
	}
	return r.GetValues()[0]
}

// refused allocates one claim, which must fail.
func (s *suite) refused(uid string, c *allocatorv1.Claim, reason allocatorv1.FailureReason, message string) {
	s.Helper()
	r := s.allocate(uid, c)
	if len(r.GetFailures()) != 1 || len(r.GetValues()) != 0 {
		s.Errorf("allocate %v for %s: %v, want a failure", c, uid, r)
		return
	}
	f := r.GetFailures()[0]
	if f.GetSlot() != c.GetSlot() || f.GetReason() != reason || message != "" && f.GetMessage() != message {
		s.Errorf("allocate %v for %s: failure %v; want %v %q", c, uid, f, reason, message)
	}
}

func (s *suite) confirmed(uid string, slots ...string) *allocatorv1.ConfirmResponse {
	s.Helper()
	resp, err := s.client.Confirm(s.Context(), &allocatorv1.ConfirmRequest{Owners: []*allocatorv1.OwnerSlots{{OwnerUid: uid, Slots: slots}}})
	if err != nil {
		s.Fatalf("Confirm: %v", err)
	}
	return resp
}

func (s *suite) released(uid string, slots ...string) uint32 {
	s.Helper()
	resp, err := s.client.Release(s.Context(), &allocatorv1.ReleaseRequest{Owners: []*allocatorv1.OwnerSlots{{OwnerUid: uid, Slots: slots}}})
	if err != nil {
		s.Fatalf("Release: %v", err)
	}
	return resp.GetReleased()
}

// listed returns all allocations of an owner, or of all owners, as "pool value slot state".
func (s *suite) listed(uid string) []string {
	s.Helper()
	var all []string
	req := &allocatorv1.ListAllocationsRequest{OwnerUid: uid, PageSize: 3}
	for {
		resp, err := s.client.ListAllocations(s.Context(), req)
		if err != nil {
			s.Fatalf("ListAllocations: %v", err)
		}
		for _, a := range resp.GetAllocations() {
			all = append(all, fmt.Sprint(a.GetPool(), " ", a.GetValue(), " ", a.GetSlot(), " ", a.GetState()))
		}
		if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
			return all
		}
	}
}

func (s *suite) wantCode(what string, err error, code codes.Code) {
	s.Helper()
	if status.Code(err) != code {
		s.Errorf("%s: %v, want %v", what, err, code)
	}
}

func ipv6(c *allocatorv1.Claim) *allocatorv1.Claim {
	c.Family = corev1.IPFamily_IP_FAMILY_IPV6
	return c
}

func ipv4(c *allocatorv1.Claim) *allocatorv1.Claim {
	c.Family = corev1.IPFamily_IP_FAMILY_IPV4
	return c
}
