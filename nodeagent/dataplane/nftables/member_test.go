package nftables

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"portolan.dev/nodeagent/dataplane/kernel"
)

// TestMembers checks that after any history each backend that clients may return to has a number of
// its own, and keeps it.
func TestMembers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &server{class: class{Settings: kernel.Settings{Scheduler: "rr", Affinity: time.Hour}}}
		for range 4 {
			before := s
			s = s.clone()
			for i, weight := range rapid.SliceOfN(rapid.Uint32Range(0, 2), 0, 8).Draw(t, "weights") {
				if rapid.Bool().Draw(t, "remove") {
					s.remove(addr(i))
				} else {
					s.set(addr(i), weight)
				}
			}
			s.assignSlots()
			var taken []uint32
			for _, b := range s.backends {
				was := before.memberOf(b.addr)
				switch {
				case b.weight == 0 && b.member != 0:
					t.Fatalf("%s is idle and has the number %x", b.addr, b.member)
				case b.weight == 0:
					continue
				case b.member&^maxNumber != memberBit || slices.Contains(taken, b.member):
					t.Fatalf("%s has the number %x", b.addr, b.member)
				case was != 0 && was != b.member:
					t.Fatalf("%s has the number %x, and had %x", b.addr, b.member, was)
				}
				taken = append(taken, b.member)
			}
		}
	})
}

// TestTakenMember checks that a backend does not get the number of another one, and gets its own if it
// comes back later.
func TestTakenMember(t *testing.T) {
	s := &server{class: class{Settings: kernel.Settings{Scheduler: "rr", Affinity: time.Hour}}}
	s.backends = []backend{{addr: addr(1), weight: 1, member: preferredMember(addr(2))}}
	s.set(addr(2), 1)
	s.assignMembers()
	if got, other := s.memberOf(addr(2)), preferredMember(addr(2)); got == other || got == 0 {
		t.Errorf("the number is %x, which is taken", got)
	}
	s.remove(addr(1))
	s.set(addr(2), 0)
	s.assignMembers()
	s.set(addr(2), 1)
	s.assignMembers()
	if got, want := s.memberOf(addr(2)), preferredMember(addr(2)); got != want {
		t.Errorf("the number is %x, want %x", got, want)
	}
}
