package neighbor

import (
	"net/netip"
	"testing"

	"github.com/mdlayher/ndp"
)

// packetOf returns a packet of IPv6 from an address with a message.
func packetOf(t testing.TB, from string, m ndp.Message) []byte {
	t.Helper()
	body, err := ndp.MarshalMessage(m)
	if err != nil {
		t.Fatal(err)
	}
	source := netip.MustParseAddr(from).As16()
	header := make([]byte, ipv6Header)
	copy(header[sourceAt:], source[:])
	return append(header, body...)
}

// TestParseSolicitation checks that a request is read as it was written, and that other messages are ignored.
func TestParseSolicitation(t *testing.T) {
	target := netip.MustParseAddr("2001:db8::50")
	r, ok := parseSolicitation(packetOf(t, "2001:db8::7", &ndp.NeighborSolicitation{TargetAddress: target}))
	if !ok || r.Address != target || r.Sender != netip.MustParseAddr("2001:db8::7") {
		t.Errorf("got %+v, %v", r, ok)
	}
	for name, p := range map[string][]byte{
		"an advertisement":    packetOf(t, "2001:db8::7", &ndp.NeighborAdvertisement{TargetAddress: target}),
		"a header":            make([]byte, ipv6Header),
		"less than a header":  make([]byte, ipv6Header-1),
		"a truncated request": packetOf(t, "::", &ndp.NeighborSolicitation{TargetAddress: target})[:ipv6Header+20],
	} {
		if r, ok := parseSolicitation(p); ok {
			t.Errorf("%s is read as %+v", name, r)
		}
	}
}

// FuzzSolicitation checks that no packet of a neighbour makes the parser fail, and that each request
// has the addresses that are in the packet.
func FuzzSolicitation(f *testing.F) {
	f.Add(packetOf(f, "fe80::1", &ndp.NeighborSolicitation{TargetAddress: netip.MustParseAddr("2001:db8::50")}))
	f.Fuzz(func(t *testing.T, p []byte) {
		r, ok := parseSolicitation(p)
		if ok && (r.Address != netip.AddrFrom16([16]byte(p[ipv6Header+8:])) || r.Sender != netip.AddrFrom16([16]byte(p[sourceAt:]))) {
			t.Errorf("%x is read as %+v", p, r)
		}
	})
}
