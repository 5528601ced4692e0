package allocatortest

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"google.golang.org/grpc/codes"

	allocatorv1 "portolan.dev/api/allocator/v1"
)

// Short names of the reasons.
const (
	reasonFull      = allocatorv1.FailureReason_FAILURE_REASON_FULL
	reasonRange     = allocatorv1.FailureReason_FAILURE_REASON_NOT_IN_RANGE
	reasonAllocated = allocatorv1.FailureReason_FAILURE_REASON_ALLOCATED
	reasonInvalid   = allocatorv1.FailureReason_FAILURE_REASON_INVALID
)

func (s *suite) idempotent() {
	s.pool("ips", useIP, "10.96.0.0/24")
	s.pool("ports", usePort, "30000-30099")
	first := s.allocate("a", claim("ip", useIP, ""), claim("port", usePort, ""), claim("wanted", usePort, "30007"))
	if len(first.GetValues()) != 3 || first.GetValues()[2] != "30007" {
		s.Fatalf("got %v", first)
	}
	again := s.allocate("a", claim("wanted", usePort, ""), claim("ip", useIP, first.GetValues()[0]), claim("port", usePort, ""))
	want := []string{"30007", first.GetValues()[0], first.GetValues()[1]}
	if !slices.Equal(again.GetValues(), want) {
		s.Errorf("the second time %v, want %v", again, want)
	}
	s.wantUsed("ips", 1)
	s.wantUsed("ports", 2)
}

func (s *suite) atomic() {
	s.pool("ips", useIP, "10.96.0.0/24")
	s.pool("ports", usePort, "30000-30099")
	s.must("other", claim("port", usePort, "30001"))
	results := s.allocateAll(false,
		&allocatorv1.ClaimSet{Owner: owner("a"), Claims: []*allocatorv1.Claim{
			claim("ip", useIP, ""), claim("p1", usePort, "30001"), claim("p2", usePort, "99"), claim("p3", usePort, "30002"),
		}},
		&allocatorv1.ClaimSet{Owner: owner("b"), Claims: []*allocatorv1.Claim{claim("ip", useIP, "10.96.0.9"), claim("p3", usePort, "30002")}},
	)
	if f := results[0].GetFailures(); len(f) != 2 || f[0].GetSlot() != "p1" || f[1].GetSlot() != "p2" || len(results[0].GetValues()) != 0 {
		s.Errorf("the set that fails: %v; want all its failures and no values", results[0])
	}
	if got := results[1].GetValues(); !slices.Equal(got, []string{"10.96.0.9", "30002"}) {
		s.Errorf("the set after it: %v", results[1])
	}
	s.wantUsed("ips", 1)
	s.wantUsed("ports", 2)
}

func (s *suite) explicit() {
	s.pool("ips", useIP, "10.96.0.0/16")
	s.pool("ports", usePort, "30000-32767")
	const (
		ipRange   = "provided IP is not in the valid range. The range of valid IPs is 10.96.0.0/16"
		portRange = "provided port is not in the valid range. The range of valid ports is 30000-32767"
	)
	s.must("a", claim("ip", useIP, "10.96.0.10"))
	s.must("a", claim("port", usePort, "30080"))
	s.refused("b", claim("ip", useIP, "10.96.0.10"), reasonAllocated, "provided IP is already allocated")
	s.refused("b", claim("port", usePort, "30080"), reasonAllocated, "provided port is already allocated")
	for _, outside := range []string{"10.97.0.1", "fd00::1"} {
		s.refused("b", claim("ip", useIP, outside), reasonRange, ipRange)
	}
	const within = `which the pool "ips" leaves out; its values are 10.96.0.1 to 10.96.255.254`
	s.refused("b", claim("ip", useIP, "10.96.0.0"), reasonRange, "provided IP 10.96.0.0 is the network address of 10.96.0.0/16, "+within)
	s.refused("b", claim("ip", useIP, "10.96.255.255"), reasonRange, "provided IP 10.96.255.255 is the broadcast address of 10.96.0.0/16, "+within)
	s.pool("six", useIP, "fd00:1::/64")
	s.refused("b", claim("ip", useIP, "fd00:1::"), reasonRange,
		`provided IP fd00:1:: is the subnet-router anycast address of fd00:1::/64, which the pool "six" leaves out; its values are fd00:1::1 to fd00:1::ffff:ffff:ffff:ffff`)
	for _, outside := range []string{"29999", "32768", "80"} {
		s.refused("b", claim("port", usePort, outside), reasonRange, portRange)
	}
}

func (s *suite) invalid() {
	s.pool("ips", useIP, "10.96.0.0/24")
	s.pool("ports", usePort, "30000-30099")
	for _, c := range []*allocatorv1.Claim{
		claim("ip", useIP, "10.96.0"), claim("ip", useIP, "http"), claim("ip", useIP, "fe80::1%eth0"),
		claim("port", usePort, "0"), claim("port", usePort, "65536"), claim("port", usePort, "http"), claim("port", usePort, "-1"),
		claim("", useIP, ""), claim("x", allocatorv1.Use_USE_UNSPECIFIED, ""),
		ipv6(claim("ip", useIP, "10.96.0.1")), ipv4(claim("ip", useIP, "fd00::1")),
		{Slot: "ip", Use: useIP, Pool: "nowhere"}, {Slot: "ip", Use: useIP, Pool: "ports"},
	} {
		s.refused("a", c, reasonInvalid, "")
	}
	s.refused("", claim("ip", useIP, ""), reasonInvalid, "")
	if r := s.allocate("a", claim("ip", useIP, ""), claim("ip", useIP, "")); len(r.GetFailures()) != 1 {
		s.Errorf("a slot twice in a set: %v", r)
	}
	sets := make([]*allocatorv1.ClaimSet, 1001)
	_, err := s.client.Allocate(s.Context(), &allocatorv1.AllocateRequest{Sets: sets})
	s.wantCode("1001 sets", err, codes.InvalidArgument)
	_, err = s.client.Release(s.Context(), &allocatorv1.ReleaseRequest{Owners: []*allocatorv1.OwnerSlots{{}}})
	s.wantCode("release without owner", err, codes.InvalidArgument)
	s.wantUsed("ips", 0)
	s.wantUsed("ports", 0)
}

func (s *suite) bands() {
	if p := s.pool("ips", useIP, "10.96.0.0/24"); p.GetStaticBand() != 16 || p.GetSize() != 254 {
		s.Errorf("pool of a /24 is %v, want a static band of 16 and 254 values", p)
	}
	if p := s.pool("ports", usePort, "30000-32767"); p.GetStaticBand() != 86 || p.GetSize() != 2768 {
		s.Errorf("pool of node ports is %v, want a static band of 86", p)
	}
	s.must("static", claim("ip", useIP, "10.96.0.3"))
	upper := netip.MustParseAddr("10.96.0.17")
	for i := range 254 - 16 {
		if v := netip.MustParseAddr(s.must(fmt.Sprint("o", i), claim("ip", useIP, ""))); v.Less(upper) {
			s.Fatalf("value %d is %s, of the static band", i, v)
		}
	}
	for i := range 15 {
		if v := netip.MustParseAddr(s.must(fmt.Sprint("p", i), claim("ip", useIP, ""))); !v.Less(upper) {
			s.Fatalf("%s was handed out twice", v)
		}
	}
	s.refused("late", claim("ip", useIP, ""), reasonFull, "")
}

// restedBeforeStatic checks that the lower band is used only when all values of the upper band are
// in use, and not while some of them rest.
func (s *suite) restedBeforeStatic() {
	s.pool("ports", usePort, "30000-30031") // a static band of 16
	for i := range 16 {
		s.must(fmt.Sprint("o", i), claim("p", usePort, ""))
	}
	s.released("o7")
	if v := s.must("late", claim("p", usePort, "")); v < "30016" {
		s.Errorf("got %s, of the static band, while a value of the upper one only rests", v)
	}
	if v := s.must("later", claim("p", usePort, "")); v >= "30016" {
		s.Errorf("got %s, which is in use", v)
	}
}

func (s *suite) full() {
	s.pool("ports", usePort, "30000-30003")
	seen := map[string]bool{}
	for i := range 4 {
		seen[s.must(fmt.Sprint("o", i), claim("p", usePort, ""))] = true
	}
	if len(seen) != 4 {
		s.Errorf("handed out %v", seen)
	}
	s.refused("late", claim("p", usePort, ""), reasonFull, "")
	s.refused("late", claim("ip", useIP, ""), reasonFull, "")
	s.released("o2")
	if v := s.must("late", claim("p", usePort, "")); !seen[v] {
		s.Errorf("got %s, which is in no pool", v)
	}
}

func (s *suite) rest() {
	s.pool("ports", usePort, "30000-30002")
	s.must("a", claim("p", usePort, "30000"))
	s.released("a")
	if p := s.fill("ports"); p.GetUsed() != 0 || p.GetResting() != 1 {
		s.Errorf("after the release: %v", p)
	}
	for i := range 2 {
		if v := s.must(fmt.Sprint("o", i), claim("p", usePort, "")); v == "30000" {
			s.Error("a value at rest was handed out while others were free")
		}
	}
	s.must("wants-it", claim("p", usePort, "30000"))
	if p := s.fill("ports"); p.GetUsed() != 3 || p.GetResting() != 0 {
		s.Errorf("at the end: %v", p)
	}
}

func (s *suite) release() {
	s.pool("ports", usePort, "30000-30099")
	s.must("a", claim("p1", usePort, "30001"))
	s.must("a", claim("p2", usePort, "30002"))
	s.must("a", claim("p3", usePort, "30003"))
	for uid, slots := range map[string][]string{"b": {"p1"}, "c": nil, "a": {"elsewhere"}} {
		if n := s.released(uid, slots...); n != 0 {
			s.Errorf("release of %s %v freed %d values", uid, slots, n)
		}
	}
	s.wantUsed("ports", 3)
	if n := s.released("a", "p1"); n != 1 {
		s.Errorf("release of one slot freed %d values", n)
	}
	s.must("b", claim("p", usePort, "30001"))
	if n := s.released("a"); n != 2 {
		s.Errorf("release of the rest freed %d values", n)
	}
	if n := s.released("a"); n != 0 {
		s.Errorf("release again freed %d values", n)
	}
	s.refused("c", claim("p", usePort, "30001"), reasonAllocated, "")
}

func (s *suite) confirm() {
	s.pool("ports", usePort, "30000-30099")
	s.must("a", claim("p1", usePort, "30001"))
	s.must("a", claim("p2", usePort, "30002"))
	if r := s.confirmed("a", "p1", "x"); r.GetConfirmed() != 1 || !slices.Equal(r.GetUnknown(), []string{"a/x"}) {
		s.Errorf("confirm p1 and x: %v", r)
	}
	if r := s.confirmed("b", "p1"); r.GetConfirmed() != 0 || !slices.Equal(r.GetUnknown(), []string{"b/p1"}) {
		s.Errorf("confirm of another owner: %v", r)
	}
	want := []string{"ports 30001 p1 ALLOCATION_STATE_CONFIRMED", "ports 30002 p2 ALLOCATION_STATE_HELD"}
	if got := s.listed("a"); !slices.Equal(got, want) {
		s.Errorf("listed %v, want %v", got, want)
	}
	for range 2 {
		if r := s.confirmed("a"); r.GetConfirmed() != 2 || len(r.GetUnknown()) != 0 {
			s.Errorf("confirm all: %v", r)
		}
	}
}

func (s *suite) replace() {
	s.pool("ports", usePort, "30000-30099")
	s.must("a", claim("p", usePort, "30001"))
	s.confirmed("a")
	s.must("a", claim("p", usePort, "30002"))
	s.wantUsed("ports", 2)
	s.released("a", "p") // the update failed
	if got := s.must("a", claim("p", usePort, "")); got != "30001" {
		s.Errorf("after the way back the slot has %s", got)
	}
	s.must("a", claim("p", usePort, "30003"))
	s.confirmed("a", "p") // the update succeeded
	if got := s.must("a", claim("p", usePort, "")); got != "30003" {
		s.Errorf("after the update the slot has %s", got)
	}
	s.wantUsed("ports", 1)
}

func (s *suite) share() {
	s.pool("ports", usePort, "30000-30099")
	s.must("a", claim("dns-tcp", usePort, "30053"))
	s.must("a", claim("dns-udp", usePort, "30053"))
	s.confirmed("a")
	s.wantUsed("ports", 1)
	if n := s.released("a", "dns-tcp"); n != 0 {
		s.Errorf("release of the first slot freed %d values", n)
	}
	s.refused("b", claim("p", usePort, "30053"), reasonAllocated, "")
	if n := s.released("a", "dns-udp"); n != 1 {
		s.Errorf("release of the last slot freed %d values", n)
	}
	s.must("b", claim("p", usePort, "30053"))
}

func (s *suite) dryRun() {
	s.pool("ports", usePort, "30000-30001")
	set := &allocatorv1.ClaimSet{Owner: owner("a"), Claims: []*allocatorv1.Claim{claim("p1", usePort, "30001"), claim("p2", usePort, "")}}
	for range 2 {
		if r := s.allocateAll(true, set)[0]; !slices.Equal(r.GetValues(), []string{"30001", "30000"}) {
			s.Errorf("dry run: %v", r)
		}
	}
	s.wantUsed("ports", 0)
	s.must("b", claim("p", usePort, "30001"))
	if r := s.allocateAll(true, set)[0]; len(r.GetFailures()) != 1 {
		s.Errorf("dry run of a taken port: %v", r)
	}
}

func (s *suite) concurrent() {
	s.pool("ips", useIP, "10.96.0.0/25")
	const owners = 40
	var (
		mu   sync.Mutex
		seen = map[string]string{}
		wg   sync.WaitGroup
	)
	for i := range owners {
		wg.Go(func() {
			uid := fmt.Sprint("o", i)
			set := &allocatorv1.ClaimSet{Owner: owner(uid), Claims: []*allocatorv1.Claim{claim("a", useIP, ""), claim("b", useIP, "")}}
			resp, err := s.client.Allocate(s.Context(), &allocatorv1.AllocateRequest{Sets: []*allocatorv1.ClaimSet{set}})
			if err != nil || len(resp.GetResults()[0].GetValues()) != 2 {
				s.Errorf("allocate: %v %v", resp, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for _, v := range resp.GetResults()[0].GetValues() {
				if other, taken := seen[v]; taken {
					s.Errorf("%s has the value %s of %s", uid, v, other)
				}
				seen[v] = uid
			}
		})
	}
	wg.Wait()
	s.wantUsed("ips", 2*owners)
}

func (s *suite) list() {
	s.pool("b-ports", usePort, "30000-30099")
	s.pool("a-ips", useIP, "10.96.0.0/16")
	for i, ip := range []string{"10.96.0.200", "10.96.1.1", "10.96.0.3", "10.96.0.30"} {
		s.must(fmt.Sprint("o", i), claim("ip", useIP, ip))
	}
	s.must("o0", claim("p2", usePort, "30001"))
	s.must("o0", claim("p1", usePort, "30001"))
	s.confirmed("o0")
	s.released("o2")
	want := []string{
		"a-ips 10.96.0.3  ALLOCATION_STATE_RESTING",
		"a-ips 10.96.0.30 ip ALLOCATION_STATE_HELD",
		"a-ips 10.96.0.200 ip ALLOCATION_STATE_CONFIRMED",
		"a-ips 10.96.1.1 ip ALLOCATION_STATE_HELD",
		"b-ports 30001 p1 ALLOCATION_STATE_CONFIRMED",
		"b-ports 30001 p2 ALLOCATION_STATE_CONFIRMED",
	}
	if got := s.listed(""); !slices.Equal(got, want) {
		s.Errorf("listed\n%q, want\n%q", got, want)
	}
	if got := s.listed("o3"); !slices.Equal(got, want[1:2]) {
		s.Errorf("listed of one owner %q", got)
	}
	_, err := s.client.ListAllocations(s.Context(), &allocatorv1.ListAllocationsRequest{PageToken: "?"})
	s.wantCode("a foreign page token", err, codes.InvalidArgument)
}

func (s *suite) families() {
	s.pool("four", useIP, "10.96.0.0/24")
	s.pool("six", useIP, "fd00:96::/64")
	r := s.allocate("a", ipv6(claim("six", useIP, "")), ipv4(claim("four", useIP, "")))
	if len(r.GetValues()) != 2 || !netip.MustParseAddr(r.GetValues()[0]).Is6() || !netip.MustParseAddr(r.GetValues()[1]).Is4() {
		s.Errorf("got %v", r)
	}
	if got := s.must("a", ipv6(claim("wanted", useIP, "fd00:0096::0:10"))); got != "fd00:96::10" {
		s.Errorf("got %s, want the short form", got)
	}
	s.wantUsed("six", 2)
}

// moves claims a value of another owner that gives it up, and of owners that do not.
func (s *suite) moves() {
	s.pool("ips", useIP, "10.96.0.0/24")
	s.must("old", claim("a", useIP, "10.96.0.9"))
	s.must("old", claim("b", useIP, "10.96.0.9"))
	s.must("old", claim("c", useIP, "10.96.0.10"))
	s.confirmed("old")
	moving := func(value, from string) *allocatorv1.Claim {
		c := claim("x", useIP, value)
		c.MovesFrom = from
		return c
	}
	r := s.allocate("new", moving("10.96.0.9", "other"))
	if f := r.GetFailures(); len(f) != 1 || f[0].GetReason() != reasonAllocated || f[0].GetOwner().GetUid() != "old" {
		s.Errorf("a value of an owner that does not give it up: %v", r)
	}
	failing := s.allocate("new", moving("10.96.0.9", "old"), claim("y", useIP, "10.97.0.1"))
	if len(failing.GetFailures()) != 1 {
		s.Errorf("a set that fails: %v", failing)
	}
	if got := s.listed("old"); len(got) != 3 {
		s.Errorf("after a set that failed the old owner has %v", got)
	}
	s.must("new", moving("10.96.0.9", "old"))
	s.must("new", moving("10.96.0.9", "old")) // repeated
	s.confirmed("new", "x")
	s.wantUsed("ips", 2)
	if got := s.listed("old"); len(got) != 1 {
		s.Errorf("the old owner still has %v", got)
	}
	s.refused("old", claim("a", useIP, "10.96.0.9"), reasonAllocated, "")
	s.must("new", moving("10.96.0.11", "old")) // free
}
