package allocatortest

import (
	"net/netip"

	"google.golang.org/grpc/codes"

	allocatorv1 "portolan.dev/api/allocator/v1"
)

func (s *suite) pools() {
	s.pool("ips", useIP, "10.96.0.0/16")
	s.pool("ports", usePort, "30000-32767")
	for _, c := range []struct {
		name  string
		use   allocatorv1.Use
		text  string
		state allocatorv1.PoolState
		code  codes.Code
	}{
		{"ips", useIP, "10.100.0.0/16", 0, codes.AlreadyExists},
		{"more", useIP, "10.96.4.0/24", 0, codes.FailedPrecondition},
		{"more", allocatorv1.Use_USE_POD_IP, "10.0.0.0/8", 0, codes.FailedPrecondition},
		{"more", usePort, "32767-32768", 0, codes.FailedPrecondition},
		{"More_", useIP, "10.100.0.0/16", 0, codes.InvalidArgument},
		{"", useIP, "10.100.0.0/16", 0, codes.InvalidArgument},
		{"more", allocatorv1.Use_USE_UNSPECIFIED, "10.100.0.0/16", 0, codes.InvalidArgument},
		{"more", useIP, "10.100.0.1/16", 0, codes.InvalidArgument},
		{"more", useIP, "20000-20099", 0, codes.InvalidArgument},
		{"more", usePort, "10.100.0.0/16", 0, codes.InvalidArgument},
		{"more", usePort, "0-70000", 0, codes.InvalidArgument},
		{"more", useIP, "10.100.0.0/16", 77, codes.InvalidArgument},
	} {
		_, err := s.client.CreatePool(s.Context(), &allocatorv1.CreatePoolRequest{
			Pool: &allocatorv1.Pool{Name: c.name, Use: c.use, Range: c.text, State: c.state},
		})
		s.wantCode(c.name+" "+c.text, err, c.code)
	}
	s.unusable()
	s.must("a", claim("ip", useIP, "10.96.200.1"))
	for _, c := range []struct {
		pool *allocatorv1.Pool
		code codes.Code
	}{
		{&allocatorv1.Pool{Name: "none", Range: "10.96.0.0/16"}, codes.NotFound},
		{&allocatorv1.Pool{Name: "ips", Range: "10.96.0.0/24"}, codes.FailedPrecondition},
		{&allocatorv1.Pool{Name: "ips", Use: usePort, Range: "10.96.0.0/16"}, codes.InvalidArgument},
		{&allocatorv1.Pool{Name: "ips", Range: "nonsense"}, codes.InvalidArgument},
		{&allocatorv1.Pool{Name: "ips", Range: "10.96.0.0/16", StaticBand: 3}, codes.InvalidArgument},
	} {
		_, err := s.client.UpdatePool(s.Context(), &allocatorv1.UpdatePoolRequest{Pool: c.pool})
		s.wantCode(c.pool.String(), err, c.code)
	}
}

// unusable creates pools with addresses that no object can have.
func (s *suite) unusable() {
	for _, c := range []struct {
		use  allocatorv1.Use
		text string
	}{
		{allocatorv1.Use_USE_LOAD_BALANCER_IP, "127.98.0.0/24"},
		{allocatorv1.Use_USE_LOAD_BALANCER_IP, "::1/128"},
		{allocatorv1.Use_USE_LOAD_BALANCER_IP, "169.254.8.0/24"},
		{allocatorv1.Use_USE_LOAD_BALANCER_IP, "fe80::/64"},
		{allocatorv1.Use_USE_LOAD_BALANCER_IP, "224.0.0.0/24"},
		{allocatorv1.Use_USE_LOAD_BALANCER_IP, "255.255.255.0/24"},
		{allocatorv1.Use_USE_LOAD_BALANCER_IP, "0.0.0.0/24"},
		{allocatorv1.Use_USE_LOAD_BALANCER_IP, "96.0.0.0/3"}, // has the loopback range
		{allocatorv1.Use_USE_POD_IP, "169.254.8.0/24"},
		{useIP, "239.0.0.0/16"},
		{useIP, "ff05::/64"},
	} {
		_, err := s.client.CreatePool(s.Context(), &allocatorv1.CreatePoolRequest{Pool: &allocatorv1.Pool{Name: "unusable", Use: c.use, Range: c.text}})
		s.wantCode(c.text+" for "+c.use.String(), err, codes.InvalidArgument)
	}
	s.pool("balancers", allocatorv1.Use_USE_LOAD_BALANCER_IP, "223.255.255.0/24")
	_, err := s.client.UpdatePool(s.Context(), &allocatorv1.UpdatePoolRequest{Pool: &allocatorv1.Pool{Name: "balancers", Range: "224.0.0.0/24"}})
	s.wantCode("a pool that becomes multicast", err, codes.InvalidArgument)
	s.pool("one-machine", useIP, "127.96.0.0/24")
	s.pool("loopback", allocatorv1.Use_USE_LOAD_BALANCER_IP, "127.98.0.0/24")
}

func (s *suite) poolLife() {
	s.pool("ips", useIP, "10.96.0.0/28")
	for range 14 {
		s.must("fill", claim(s.fill("ips").String(), useIP, "")) // a different slot each time
	}
	s.refused("a", claim("ip", useIP, ""), reasonFull, "")

	if p := s.update(&allocatorv1.Pool{Name: "ips", Range: "10.96.0.0/24"}); p.GetSize() != 254 || p.GetUsed() != 14 || p.GetUse() != useIP || p.GetStaticBand() != 16 {
		s.Errorf("grown: %v", p)
	}
	if v := netip.MustParseAddr(s.must("a", claim("ip", useIP, ""))); v.Less(netip.MustParseAddr("10.96.0.17")) {
		s.Errorf("the grown pool hands out %s, of the static band of its new range", v)
	}

	s.update(&allocatorv1.Pool{Name: "ips", State: allocatorv1.PoolState_POOL_STATE_DRAINING})
	s.refused("b", claim("ip", useIP, ""), reasonFull, "")
	s.must("b", claim("ip", useIP, "10.96.0.100"))
	if p := s.update(&allocatorv1.Pool{Name: "ips", Range: "10.96.0.0/23"}); p.GetState() != allocatorv1.PoolState_POOL_STATE_DRAINING || p.GetStaticBand() != 32 {
		s.Errorf("a draining pool that grows: %v, want it draining still, with the band of its new range", p)
	}
	if p := s.update(&allocatorv1.Pool{Name: "ips", Range: "10.96.0.0/24"}); p.GetStaticBand() != 16 || p.GetUsed() != 16 || p.GetStaticUsed() != 14 {
		s.Errorf("a pool that shrinks: %v, want the band of its new range and the same values in use, by band", p)
	}

	_, err := s.client.DeletePool(s.Context(), &allocatorv1.DeletePoolRequest{Name: "ips"})
	s.wantCode("delete of a pool that is not retired", err, codes.FailedPrecondition)
	s.update(&allocatorv1.Pool{Name: "ips", State: allocatorv1.PoolState_POOL_STATE_RETIRED})
	s.refused("c", claim("ip", useIP, "10.96.0.101"), reasonRange, "")
	s.must("b", claim("ip", useIP, "")) // has its value already
	_, err = s.client.DeletePool(s.Context(), &allocatorv1.DeletePoolRequest{Name: "ips"})
	s.wantCode("delete of a pool in use", err, codes.FailedPrecondition)

	for _, uid := range []string{"a", "b", "fill"} {
		s.released(uid)
	}
	if _, err = s.client.DeletePool(s.Context(), &allocatorv1.DeletePoolRequest{Name: "ips"}); err != nil {
		s.Errorf("delete of an empty pool: %v", err)
	}
	_, err = s.client.DeletePool(s.Context(), &allocatorv1.DeletePoolRequest{Name: "ips"})
	s.wantCode("delete again", err, codes.NotFound)
	s.pool("ips", useIP, "10.96.0.0/28")
	s.must("a", claim("ip", useIP, "10.96.0.1"))
}
