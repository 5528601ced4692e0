package nftables

import (
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"portolan.dev/nodeagent/plan"
)

func addr(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}), 80)
}

func backends(weights ...uint32) []backend {
	var out []backend
	for i, w := range weights {
		out = append(out, backend{addr: addr(i), weight: w})
	}
	return out
}

// TestAssign checks that every backend has the slots of its weight after any history, and that no
// more slots change than necessary.
func TestAssign(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.Uint32Range(0, 5), 0, 12)
		var slots []netip.AddrPort
		for range 3 {
			list := backends(weights.Draw(t, "weights")...)
			before := slots
			slots = assign(before, "rr", list)
			want := shares(list)
			total := 0
			for a, n := range want {
				total += n
				got := 0
				for _, s := range slots {
					if s == a {
						got++
					}
				}
				if got != n {
					t.Fatalf("%s has %d slots, want %d", a, got, n)
				}
			}
			if len(slots) != total {
				t.Fatalf("%d slots, want %d", len(slots), total)
			}
			if again := assign(slots, "rr", list); !slices.Equal(again, slots) {
				t.Fatalf("%v became %v for nothing", slots, again)
			}
		}
	})
}

// TestAssignChangesLittle checks that adding or removing one backend changes at most two slots.
func TestAssignChangesLittle(t *testing.T) {
	full := backends(slices.Repeat([]uint32{1}, 100)...)
	slots := assign(nil, "rr", full)
	for i := range full {
		less := slices.Delete(slices.Clone(full), i, i+1)
		next := assign(slots, "rr", less)
		changed := 0
		for k := range next {
			if next[k] != slots[k] {
				changed++
			}
		}
		if len(next) != 99 || changed > 1 {
			t.Fatalf("without %d: %d slots, %d changed", i, len(next), changed)
		}
	}
}

// TestShares checks that large weights keep their ratio.
func TestShares(t *testing.T) {
	got := shares(backends(100, 200, 0))
	if got[addr(0)] != 1 || got[addr(1)] != 2 || len(got) != 2 {
		t.Errorf("100 and 200: %v", got)
	}
	got = shares(backends(65535, 65534, 1))
	if n := got[addr(0)]; n < 490 || n > 510 || got[addr(2)] != 1 {
		t.Errorf("large weights: %v", got)
	}
}

// TestSlotsAreSpreadOut checks that the backend with the most slots never has two adjacent ones if
// the others have enough slots to separate them.
func TestSlotsAreSpreadOut(t *testing.T) {
	slots := assign(nil, "rr", backends(3, 2, 2))
	for i, s := range slots[1:] {
		if s == slots[i] {
			t.Errorf("slots %d and %d are both of %s: %v", i, i+1, s, slots)
		}
	}
}

// TestRendezvous checks that consistent hashing follows the weights, gives the same result
// everywhere, and moves no client between backends that stay.
func TestRendezvous(t *testing.T) {
	list := backends(1, 1, 2)
	slots := assign(nil, plan.Maglev.String(), list)
	counts := map[netip.AddrPort]int{}
	for _, s := range slots {
		counts[s]++
	}
	if len(slots) != hashSlots || counts[addr(2)] < counts[addr(0)] || counts[addr(0)] < hashSlots/8 {
		t.Errorf("slots by backend %v", counts)
	}
	less := assign(slots, plan.Maglev.String(), list[:2])
	for i := range slots {
		if slots[i] != addr(2) && less[i] != slots[i] {
			t.Fatalf("slot %d moved from %s to %s", i, slots[i], less[i])
		}
	}
}
