package allocatortest

import (
	"fmt"
	"net/netip"
	"sync"

	allocatorv1 "portolan.dev/api/allocator/v1"
)

// last lets 100 concurrent owners request the last 64 addresses of a pool: some free, some at rest, and the
// static band. 64 owners get one address each, and the others get the error that the pool is full.
func (s *suite) last() {
	const takers, size, left = 100, 126, 64
	s.pool("ips", useIP, "10.96.0.0/25") // a static band of 16
	first := netip.MustParseAddr("10.96.0.1")
	taken := map[string]bool{}
	for i := range size - left + 8 {
		taken[s.must(fmt.Sprint("o", i), claim("ip", useIP, ""))] = true
	}
	for i := range 8 { // 8 of the last addresses are at rest
		for _, a := range s.allocationsOf(fmt.Sprint("o", i)) {
			delete(taken, a.GetValue())
		}
		s.released(fmt.Sprint("o", i))
	}
	results := make([]*allocatorv1.ClaimSetResult, takers)
	var wg sync.WaitGroup
	for i := range takers {
		wg.Go(func() {
			set := &allocatorv1.ClaimSet{Owner: owner(fmt.Sprint("taker", i)), Claims: []*allocatorv1.Claim{claim("ip", useIP, "")}}
			resp, err := s.client.Allocate(s.Context(), &allocatorv1.AllocateRequest{Sets: []*allocatorv1.ClaimSet{set}})
			if err != nil || len(resp.GetResults()) != 1 {
				s.Errorf("allocate: %v, %v", resp, err)
				return
			}
			results[i] = resp.GetResults()[0]
		})
	}
	wg.Wait()
	served := 0
	for _, r := range results {
		switch {
		case len(r.GetValues()) == 1 && taken[r.GetValues()[0]]:
			s.Errorf("%s has two owners", r.GetValues()[0])
		case len(r.GetValues()) == 1:
			taken[r.GetValues()[0]] = true
			served++
		case len(r.GetFailures()) != 1 || r.GetFailures()[0].GetReason() != reasonFull:
			s.Errorf("got %v, want a value or that the pool is full", r)
		}
	}
	if served != left {
		s.Errorf("%d takers got a value, want %d", served, left)
	}
	for range size {
		if !taken[first.String()] {
			s.Errorf("nobody has %s", first)
		}
		first = first.Next()
	}
	s.wantUsed("ips", size)
	s.refused("late", claim("ip", useIP, ""), reasonFull, "")
}

// allocationsOf returns the allocations of an owner.
func (s *suite) allocationsOf(uid string) []*allocatorv1.Allocation {
	s.Helper()
	resp, err := s.client.ListAllocations(s.Context(), &allocatorv1.ListAllocationsRequest{OwnerUid: uid})
	if err != nil {
		s.Fatal(err)
	}
	return resp.GetAllocations()
}
