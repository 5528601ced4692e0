package backends

import (
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func weighted(weights ...int) []*Backend {
	out := make([]*Backend, len(weights))
	for i, w := range weights {
		out[i] = &Backend{addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 80), weight: w, sessions: map[Session]struct{}{}}
	}
	return out
}

// TestRoundRobinIsFair checks that in every round of sum(weights) picks each backend is picked as
// often as its weight says.
func TestRoundRobinIsFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(1, 9), 1, 6).Draw(t, "weights")
		backends, p, total := weighted(weights...), &Pool{server: &Server{}}, 0
		for _, w := range weights {
			total += w
		}
		for round := range 3 {
			got := map[*Backend]int{}
			for range total {
				got[p.roundRobin(backends)]++
			}
			equal := true
			for _, w := range weights {
				equal = equal && w == weights[0]
			}
			for i, b := range backends {
				if got[b] != weights[i] {
					t.Fatalf("round %d: backend %d got %d, want %d (equal weights: %t)", round, i, got[b], weights[i], equal)
				}
			}
		}
	})
}

// TestHashMovesOnlyWhatItMust checks that a client keeps its backend unless the backend is removed,
// and that shares follow weights.
func TestHashMovesOnlyWhatItMust(t *testing.T) {
	backends := weighted(1, 1, 2)
	const clients = 4000
	got := map[*Backend]int{}
	for i := range clients {
		client := netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)})
		b := hashed(backends, client, 0)
		got[b]++
		rest := []*Backend{backends[0], backends[2]}
		if after := hashed(rest, client, 0); b != backends[1] && after != b {
			t.Fatalf("client %s moved though its backend stayed", client)
		}
	}
	for i, want := range []float64{0.25, 0.25, 0.5} {
		if share := float64(got[backends[i]]) / clients; share < want-0.05 || share > want+0.05 {
			t.Errorf("backend %d got %.3f of the clients, want about %.2f", i, share, want)
		}
	}
}

func TestAffinityExpires(t *testing.T) {
	var a affinity
	client, to := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddrPort("10.0.0.1:80")
	start := time.Unix(1000, 0)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	a.put(client, to, at(10), at(0))
	if got, ok := a.get(client, at(9)); !ok || got != to {
		t.Error("forgotten too early")
	}
	if _, ok := a.get(client, at(10)); ok {
		t.Error("remembered too long")
	}
	a.renew(client, netip.MustParseAddrPort("10.0.0.2:80"), at(99), at(9))
	if _, ok := a.get(client, at(11)); ok {
		t.Error("renewed by a connection to another backend")
	}
	a.renew(client, to, at(19), at(9))
	if _, ok := a.get(client, at(18)); !ok {
		t.Error("not renewed")
	}
}

func TestAffinityForgets(t *testing.T) {
	var a affinity
	start := time.Unix(1000, 0)
	for i := range 10000 { // one new client per second, each remembered for a second
		now := start.Add(time.Duration(i) * time.Second)
		a.put(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), netip.AddrPort{}, now.Add(time.Second), now)
	}
	if len(a.clients) > 200 {
		t.Errorf("%d clients remembered, nearly all of them expired", len(a.clients))
	}
}
