package allocatortest

import (
	"slices"

	"google.golang.org/grpc/codes"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
)

const (
	tcp  = corev1.Protocol_PROTOCOL_TCP
	udp  = corev1.Protocol_PROTOCOL_UDP
	sctp = corev1.Protocol_PROTOCOL_SCTP
)

// splitPool creates a pool of ports in which each protocol has numbers of its own.
func (s *suite) splitPool(name, text string) *allocatorv1.Pool {
	s.Helper()
	resp, err := s.client.CreatePool(s.Context(), &allocatorv1.CreatePoolRequest{Pool: &allocatorv1.Pool{Name: name, Use: usePort, Range: text, PerProtocol: true}})
	if err != nil {
		s.Fatal(err)
	}
	return resp.GetPool()
}

// port is a claim of a node port for protocols.
func port(slot, value string, protocols ...corev1.Protocol) *allocatorv1.Claim {
	return &allocatorv1.Claim{Slot: slot, Use: usePort, Value: value, Protocols: protocols}
}

// protocols lets owners share numbers by protocol, in a pool that allows it and in a pool that does not.
func (s *suite) protocols() {
	if p := s.splitPool("split", "30000-30031"); p.GetSize() != 96 || p.GetStaticBand() != 16 || !p.GetPerProtocol() {
		s.Errorf("a pool of 32 numbers for three protocols is %v", p)
	}
	s.pool("shared", usePort, "31000-31031")
	for _, c := range []struct {
		uid   string
		claim *allocatorv1.Claim
	}{
		{"b", port("p", "30005", udp)}, {"c", port("p", "30005", tcp, sctp)}, {"d", port("p", "31005", tcp)},
	} {
		if got := s.must(c.uid, c.claim); got != c.claim.GetValue() {
			s.Errorf("%s got %s, want %s", c.uid, got, c.claim.GetValue())
		}
	}
	s.refused("a", port("p", "30053", tcp), reasonRange, "provided port is not in the valid range. The range of valid ports is 31000-31031, 30000-30031")
	s.refused("e", port("p", "30005", udp), reasonAllocated, "provided port is already allocated for UDP")
	s.refused("e", port("p", "30005"), reasonAllocated, "")
	s.refused("e", port("p", "31005", udp), reasonAllocated, "provided port is already allocated")
	if p := s.fill("split"); p.GetUsed() != 3 || p.GetStaticUsed() != 3 {
		s.Errorf("after three values: %v", p)
	}
	if got := s.listed("c"); !slices.Equal(got, []string{"split 30005/TCP p ALLOCATION_STATE_HELD", "split 30005/SCTP p&SCTP ALLOCATION_STATE_HELD"}) {
		s.Errorf("c has %q", got)
	}
	s.confirmed("c", "p")
	if got := s.listed("c"); !slices.Equal(got, []string{"split 30005/TCP p ALLOCATION_STATE_CONFIRMED", "split 30005/SCTP p&SCTP ALLOCATION_STATE_CONFIRMED"}) {
		s.Errorf("after the confirmation, c has %q", got)
	}
	if n := s.released("c", "p"); n != 2 {
		s.Errorf("%d values of c were released, want those of both protocols", n)
	}
	if got := s.must("e", port("p", "30005", tcp)); got != "30005" {
		s.Errorf("got %s", got)
	}
}

// protocolsChecked checks that pools and claims with invalid protocols are refused.
func (s *suite) protocolsChecked() {
	s.pool("shared", usePort, "31000-31031")
	s.splitPool("split", "30000-30031")
	_, err := s.client.CreatePool(s.Context(), &allocatorv1.CreatePoolRequest{Pool: &allocatorv1.Pool{Name: "ips", Use: useIP, Range: "10.96.0.0/24", PerProtocol: true}})
	s.wantCode("addresses for each protocol", err, codes.InvalidArgument)
	_, err = s.client.UpdatePool(s.Context(), &allocatorv1.UpdatePoolRequest{Pool: &allocatorv1.Pool{Name: "shared", PerProtocol: true}})
	s.wantCode("a pool that is to be split", err, codes.InvalidArgument)
	_, err = s.client.CreatePool(s.Context(), &allocatorv1.CreatePoolRequest{Pool: &allocatorv1.Pool{Name: "more", Use: usePort, Range: "30031-30040"}})
	s.wantCode("a shared pool over a split one", err, codes.FailedPrecondition)
	_, err = s.client.Allocate(s.Context(), &allocatorv1.AllocateRequest{Sets: []*allocatorv1.ClaimSet{{Owner: owner("a"), Claims: []*allocatorv1.Claim{port("p", "", 7)}}}})
	s.wantCode("an unknown protocol", err, codes.InvalidArgument)
	if p := s.update(&allocatorv1.Pool{Name: "split", Range: "30000-30063"}); p.GetSize() != 192 || !p.GetPerProtocol() {
		s.Errorf("a split pool that grows is %v", p)
	}
}

// dynamicProtocols fills a pool with claims of one protocol, of another and of two.
func (s *suite) dynamicProtocols() {
	s.splitPool("split", "30000-30019") // a static band of 16
	numbers := map[string]bool{}
	for _, uid := range []string{"t0", "t1", "t2", "t3"} {
		numbers[s.must(uid, port("p", "", tcp))] = true
	}
	if len(numbers) != 4 || numbers["30015"] {
		s.Fatalf("claims of TCP got %v, want the four numbers of the dynamic band", numbers)
	}
	for _, uid := range []string{"u0", "u1", "u2"} {
		if got := s.must(uid, port("p", "", udp)); !numbers[got] {
			s.Errorf("a claim of UDP got %s, of the static band, while the dynamic one has free numbers of UDP", got)
		}
	}
	both := s.must("b", port("p", "", udp, tcp))
	if numbers[both] {
		s.Errorf("a claim of TCP and UDP got %s, which is in use for TCP", both)
	}
	if again := s.must("b", port("p", "", tcp, udp)); again != both {
		s.Errorf("a repeated claim got %s, want %s", again, both)
	}
	if got := s.must("s", port("p", "", sctp)); !numbers[got] {
		s.Errorf("a claim of SCTP got %s, of the static band", got)
	}
	s.released("t2")
	s.released("u1")
	if got := s.must("t4", port("p", "", tcp)); !numbers[got] {
		s.Errorf("a claim of TCP got %s, of the static band, while a number of the dynamic one only rests", got)
	}
	for i := range 15 {
		s.must("fill"+string(rune('a'+i)), port("p", "", tcp, udp, sctp))
	}
	s.refused("late", port("p", "", tcp, udp), reasonFull, "")
	s.refused("late", port("p", "", tcp), reasonFull, "")
	if got := s.must("late", port("p", "", udp)); !numbers[got] {
		s.Errorf("the last number of UDP is %s, want one of the dynamic band", got)
	}
}
