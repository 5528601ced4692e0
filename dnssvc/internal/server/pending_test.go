package server

import (
	"net/netip"
	"testing"
)

// TestPendingShares checks how many places greedy clients get, and that a client without waiting
// questions gets one as long as any is free.
func TestPendingShares(t *testing.T) {
	const places = 120
	for greedy, want := range map[int]int{1: 60, 2: 40, 3: 30, 5: 20} {
		l := newPendingLimit(places)
		client := func(n int) netip.Prefix { return clientOf(netip.AddrFrom4([4]byte{10, 0, 0, byte(n)})) }
		refused := 0
		for range places {
			for n := range greedy {
				if reason, ok := l.add(client(n)); !ok {
					refused++
					if reason != byClient {
						t.Fatalf("%d clients: refused for reason %d", greedy, reason)
					}
				}
			}
		}
		for n := range greedy {
			if got := l.clients[client(n)]; got != want {
				t.Errorf("%d clients: one has %d places, want %d", greedy, got, want)
			}
		}
		if wantRefused := greedy * (places - want); refused != wantRefused {
			t.Errorf("%d clients: %d questions refused, want %d", greedy, refused, wantRefused)
		}
		for n := range places - greedy*want {
			if _, ok := l.add(client(100 + n)); !ok {
				t.Fatalf("%d clients: another client gets no place", greedy)
			}
		}
		if reason, ok := l.add(client(99)); ok || reason != byServer {
			t.Errorf("%d clients: a full server takes more (reason %d)", greedy, reason)
		}
		for n := range greedy {
			for range want {
				l.remove(client(n))
			}
		}
		for n := range places - greedy*want {
			l.remove(client(100 + n))
		}
		if l.count() != 0 || len(l.clients) != 0 {
			t.Errorf("%d clients: %d places and %d clients are left", greedy, l.count(), len(l.clients))
		}
	}
}

// TestClientsOfAddresses checks which addresses count as one client.
func TestClientsOfAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.7": "192.0.2.7/32", "::ffff:192.0.2.7": "192.0.2.7/32",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64", "fe80::1%eth0": "fe80::/64",
	} {
		if got := clientOf(netip.MustParseAddr(address)).String(); got != want {
			t.Errorf("%s counts as %s, want %s", address, got, want)
		}
	}
}

// BenchmarkPending measures taking and giving back a place.
func BenchmarkPending(b *testing.B) {
	l := newPendingLimit(2000)
	client := netip.MustParseAddr("10.0.0.7")
	b.ReportAllocs()
	for b.Loop() {
		key := clientOf(client)
		if _, ok := l.add(key); !ok {
			b.Fatal("no place")
		}
		l.remove(key)
	}
}
