package allocatortest

import (
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"

	allocatorv1 "portolan.dev/api/allocator/v1"
)

// buggyIPs exhausts a pool that avoids addresses that end in .0 or .255, and requests such an address.
func (s *suite) buggyIPs() {
	const use = allocatorv1.Use_USE_LOAD_BALANCER_IP
	resp, err := s.client.CreatePool(s.Context(), &allocatorv1.CreatePoolRequest{Pool: &allocatorv1.Pool{
		Name: "careful", Use: use, Range: "203.0.112.0/23", AvoidBuggyIps: true,
	}})
	if p := resp.GetPool(); err != nil || !p.GetAvoidBuggyIps() || p.GetSize() != 510 {
		s.Fatalf("got %v, %v", p, err)
	}
	claim := func(value string) *allocatorv1.Claim { return &allocatorv1.Claim{Slot: "ip", Use: use, Value: value} }
	if got := s.must("wish", claim("203.0.112.255")); got != "203.0.112.255" {
		s.Errorf("who asks for 203.0.112.255 gets %s", got)
	}
	if got := s.must("wish", claim("")); got != "203.0.112.255" {
		s.Errorf("a repeated claim gets %s, want the address that the slot has", got)
	}
	s.released("wish", "ip")
	sets := make([]*allocatorv1.ClaimSet, 508)
	for n := range sets {
		sets[n] = &allocatorv1.ClaimSet{Owner: owner(fmt.Sprint("any", n)), Claims: []*allocatorv1.Claim{claim("")}}
	}
	for _, result := range s.allocateAll(false, sets...) {
		if got := strings.Join(result.GetValues(), ","); got == "" || strings.HasSuffix(got, ".0") || strings.HasSuffix(got, ".255") {
			s.Fatalf("who asks for any address gets %q", got)
		}
	}
	s.refused("late", claim(""), allocatorv1.FailureReason_FAILURE_REASON_FULL,
		`range is full: pool "careful" (203.0.112.0/23): 508 of 510 values are in use; the others end in .0 or .255 and are only for those who ask for them`)
	if got := s.must("late", claim("203.0.113.0")); got != "203.0.113.0" {
		s.Errorf("who asks for 203.0.113.0 gets %s", got)
	}
	s.buggyIPsChecked()
}

// buggyIPsChecked checks which pools may avoid such addresses, and that this is chosen for a new pool only.
func (s *suite) buggyIPsChecked() {
	for _, p := range []*allocatorv1.Pool{
		{Name: "ips", Use: useIP, Range: "10.96.0.0/23"}, {Name: "ports", Use: usePort, Range: "31000-31031"},
		{Name: "six", Use: allocatorv1.Use_USE_LOAD_BALANCER_IP, Range: "2001:db8::/120"},
	} {
		p.AvoidBuggyIps = true
		_, err := s.client.CreatePool(s.Context(), &allocatorv1.CreatePoolRequest{Pool: p})
		s.wantCode("avoided addresses of "+p.GetRange(), err, codes.InvalidArgument)
	}
	if p := s.update(&allocatorv1.Pool{Name: "careful", Range: "203.0.112.0/22"}); !p.GetAvoidBuggyIps() {
		s.Errorf("a pool that grows is %v", p)
	}
	s.pool("any", allocatorv1.Use_USE_LOAD_BALANCER_IP, "198.51.100.0/24")
	_, err := s.client.UpdatePool(s.Context(), &allocatorv1.UpdatePoolRequest{Pool: &allocatorv1.Pool{Name: "any", AvoidBuggyIps: true}})
	s.wantCode("a pool that is to avoid addresses later", err, codes.InvalidArgument)
}
