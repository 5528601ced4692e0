package pool

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestPickForKeepsTheRules drives a pool with values for each protocol at random. A picked number
// must not be in use for any of the protocols, and must be of the best class that there is.
func TestPickForKeepsTheRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := Parse(rapid.SampledFrom([]string{"30000-30003", "30000-30019"}).Draw(t, "range"))
		if err != nil {
			t.Fatal(err)
		}
		s = s.PerProtocol()
		p := New(s, s.Band(), time.Minute)
		used, resting, now := map[Value]bool{}, map[Value]time.Time{}, epoch
		some := rapid.Custom(func(t *rapid.T) Value { return s.Value(rapid.Uint64Range(0, s.Size()-1).Draw(t, "index")) })
		anyOf := rapid.SliceOfNDistinct(rapid.SampledFrom(Protocols()), 1, 3, rapid.ID)
		// classOf returns the class of a number for protocols, or false if it is in use for one of them.
		classOf := func(i uint64, protocols []Protocol) (Class, bool) {
			class := Upper
			if i < s.Band() {
				class = Lower
			}
			rests := false
			for _, protocol := range protocols {
				v := PortValueFor(s.Value(i).Port(), protocol)
				if used[v] {
					return 0, false
				}
				rests = rests || !resting[v].IsZero()
			}
			if rests {
				class++
			}
			return class, true
		}
		t.Repeat(map[string]func(*rapid.T){
			"pick": func(t *rapid.T) {
				protocols := anyOf.Draw(t, "protocols")
				best, found := LowerResting, false
				for i := range s.Span() {
					if class, ok := classOf(i, protocols); ok {
						best, found = min(best, class), true
					}
				}
				number, class, err := p.PickFor(now, protocols)
				if !found {
					if !errors.Is(err, ErrFull) {
						t.Fatalf("picked %d, %v, want that the pool is full for %v", number, err, protocols)
					}
					return
				}
				i, _ := s.Index(PortValueFor(number, TCP))
				if got, free := classOf(i, protocols); err != nil || !free || got != class || class != best {
					t.Fatalf("picked %d for %v: class %v, %v; it is of class %v, free %v, and the best is %v", number, protocols, class, err, got, free, best)
				}
				for _, protocol := range protocols {
					v := PortValueFor(number, protocol)
					if err := p.Allocate(v); err != nil {
						t.Fatal(err)
					}
					used[v] = true
					delete(resting, v)
				}
			},
			"take": func(t *rapid.T) {
				v := some.Draw(t, "value")
				if err := p.Allocate(v); used[v] != errors.Is(err, ErrAllocated) {
					t.Fatalf("Allocate(%v) = %v", v, err)
				}
				used[v] = true
				delete(resting, v)
			},
			"release": func(t *rapid.T) {
				v := some.Draw(t, "value")
				if p.Release(v, now) {
					delete(used, v)
					resting[v] = now
				}
			},
			"wait": func(t *rapid.T) {
				now = now.Add(20 * time.Second)
				for v, since := range resting {
					if now.Sub(since) >= time.Minute {
						delete(resting, v)
					}
				}
			},
			"": func(t *rapid.T) {
				lower := 0
				for v := range used {
					if v.Port() < s.Value(s.Band()).Port() {
						lower++
					}
				}
				if p.Used() != uint64(len(used)) || p.LowerUsed() != uint64(lower) || p.Resting(now) != uint64(len(resting)) {
					t.Fatalf("used %d, %d of the lower band, %d at rest; want %d, %d, %d", p.Used(), p.LowerUsed(), p.Resting(now), len(used), lower, len(resting))
				}
			},
		})
	})
}

func TestSpacesOfProtocols(t *testing.T) {
	shared := mustParse(t, "30000-32767")
	split := shared.PerProtocol()
	if split.Size() != 3*2768 || split.Span() != 2768 || split.Band() != 86 || split.String() != "30000-32767" || split.PerProtocol() != split {
		t.Errorf("%s for each protocol has %d values, %d numbers and a band of %d", split, split.Size(), split.Span(), split.Band())
	}
	for i := range split.Size() {
		v := split.Value(i)
		if at, ok := split.Index(v); !ok || at != i || v.Protocol() != Protocol(1+i/2768) {
			t.Fatalf("value %d is %s, which has the index %d, %v", i, v, at, ok)
		}
		if _, ok := shared.Index(v); ok {
			t.Fatalf("%s is a value of a shared range", v)
		}
	}
	if _, ok := split.Index(PortValue(30000)); ok {
		t.Error("a number without a protocol is a value of a range with values for each")
	}
	if !split.HasNumber(PortValue(32767)) || split.HasNumber(PortValue(32768)) || !shared.HasNumber(PortValue(30000)) {
		t.Error("HasNumber is wrong")
	}
	if !split.Overlaps(mustParse(t, "32767-32768")) || split.Overlaps(mustParse(t, "32768-33000")) || !mustParse(t, "1-65535").PerProtocol().Contains(split) {
		t.Error("Overlaps or Contains is wrong")
	}
	if ips := mustParse(t, "10.0.0.0/24"); ips.PerProtocol() != ips {
		t.Error("addresses have protocols")
	}
}

func TestKeysOfProtocols(t *testing.T) {
	for _, c := range []struct {
		value Value
		text  string
	}{
		{PortValueFor(30080, TCP), "30080/TCP"}, {PortValueFor(30080, UDP), "30080/UDP"}, {PortValueFor(30081, SCTP), "30081/SCTP"},
	} {
		back, err := ValueOfKey(c.value.Key())
		if err != nil || back != c.value || c.value.String() != c.text || len(c.value.Key()) != 3 || c.value.Without() != PortValue(c.value.Port()) {
			t.Errorf("%s has the key %x, which is read as %s, %v", c.value, c.value.Key(), back, err)
		}
	}
	for _, key := range [][]byte{{1, 2, 0}, {1, 2, 4}} {
		if v, err := ValueOfKey(key); err == nil {
			t.Errorf("the key %x is read as %v", key, v)
		}
	}
	if got := slices.Compact(Protocols()); len(got) != 3 {
		t.Errorf("protocols are %v", got)
	}
}
