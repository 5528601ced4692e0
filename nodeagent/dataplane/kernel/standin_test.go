package kernel

import (
	"net/netip"
	"testing"
)

// TestStandInsAreSharedByFrontends checks that the frontends of an address share one stand-in, and
// that it is free for other addresses when the last of them is removed.
func TestStandInsAreSharedByFrontends(t *testing.T) {
	for _, text := range []string{"10.96.0.1", "fd00:96::1"} {
		addr, s := netip.MustParseAddr(text), newStandIns()
		in := s.acquire(addr)
		if again := s.acquire(addr); again != in {
			t.Errorf("%s: %s, then %s", addr, in, again)
		}
		s.release(addr, in)
		if s.of[addr] != in || s.taken[in] != 1 {
			t.Errorf("%s: %s is free while a frontend has it", addr, in)
		}
		s.release(addr, in)
		if len(s.of)+len(s.taken) > 0 {
			t.Errorf("%s: %s is taken though no frontend has it", addr, in)
		}
	}
}
