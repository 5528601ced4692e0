package pool

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// model is a simple implementation of the rules of a pool.
type model struct {
	used    map[Value]bool
	resting map[Value]time.Time
}

func (m *model) wake(now time.Time, rest time.Duration) {
	for v, since := range m.resting {
		if now.Sub(since) >= rest {
			delete(m.resting, v)
		}
	}
}

// free counts the values of indices [from, to) that are neither used nor at rest.
func (m *model) free(s Space, from, to uint64) int {
	return m.freeAnd(s, from, to, func(Value) bool { return true })
}

// freeAnd returns the number of free values in the interval that match.
func (m *model) freeAnd(s Space, from, to uint64, match func(Value) bool) int {
	n := 0
	for i := from; i < to; i++ {
		v := s.Value(i)
		if !match(v) {
			continue
		}
		if _, rests := m.resting[v]; !rests && !m.used[v] {
			n++
		}
	}
	return n
}

func TestPoolKeepsItsRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{"10.0.0.0/28", "10.0.0.0/27", "10.0.0.0/25", "10.0.0.0/23", "10.0.0.255/32", "fd00::/121", "30000-30015", "30000-30099", "8-8"}).Draw(t, "range")
		s, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "avoid") {
			s = s.AvoidingBuggyIPs()
		}
		rest := time.Minute
		p := New(s, s.Band(), rest)
		m := &model{used: map[Value]bool{}, resting: map[Value]time.Time{}}
		now := epoch
		some := rapid.Custom(func(t *rapid.T) Value { return s.Value(rapid.Uint64Range(0, s.Size()-1).Draw(t, "index")) })
		t.Repeat(map[string]func(*rapid.T){
			"pick": func(t *rapid.T) { pick(t, p, m, now, rest) },
			"fill": func(t *rapid.T) {
				for range rapid.IntRange(1, int(s.Size())).Draw(t, "n") {
					pick(t, p, m, now, rest)
				}
			},
			"take": func(t *rapid.T) {
				v := some.Draw(t, "value")
				err := p.Allocate(v)
				if m.used[v] != errors.Is(err, ErrAllocated) {
					t.Fatalf("Take(%v) = %v, used %v", v, err, m.used[v])
				}
				m.used[v] = true
				delete(m.resting, v)
			},
			"release": func(t *rapid.T) {
				v := some.Draw(t, "value")
				if got := p.Release(v, now); got != m.used[v] {
					t.Fatalf("Release(%v) = %v", v, got)
				}
				if m.used[v] {
					delete(m.used, v)
					m.resting[v] = now
				}
			},
			"free": func(t *rapid.T) {
				v := some.Draw(t, "value")
				p.Free(v)
				delete(m.used, v)
				delete(m.resting, v)
			},
			"wait": func(t *rapid.T) { now = now.Add(time.Duration(rapid.IntRange(1, 50).Draw(t, "s")) * time.Second) },
			"": func(t *rapid.T) {
				m.wake(now, rest)
				if got := p.Resting(now); got != uint64(len(m.resting)) || p.Used() != uint64(len(m.used)) {
					t.Fatalf("used %d resting %d, want %d %d", p.Used(), got, len(m.used), len(m.resting))
				}
				lower := 0
				for v := range m.used {
					if i, _ := s.Index(v); i < p.Band() {
						lower++
					}
				}
				if p.LowerUsed() != uint64(lower) {
					t.Fatalf("%d values of the lower band are used, want %d", p.LowerUsed(), lower)
				}
				avoided := m.freeAnd(s, 0, s.Size(), func(v Value) bool { return s.AvoidsBuggyIPs() && isBuggy(v) })
				for v := range m.resting {
					if s.AvoidsBuggyIPs() && isBuggy(v) {
						avoided++
					}
				}
				if p.Avoided() != uint64(avoided) {
					t.Fatalf("%d values are avoided, want %d", p.Avoided(), avoided)
				}
				if free := m.free(s, p.Band(), s.Size()); p.UpperFree(now) != uint64(free) {
					t.Fatalf("%d values of the upper band are free, want %d", p.UpperFree(now), free)
				}
			},
		})
	})
}

// isBuggy reports whether a value is an IPv4 address that ends in .0 or .255.
func isBuggy(v Value) bool {
	if !v.IsAddr() || !v.Addr().Is4() {
		return false
	}
	last := v.Addr().As4()[3]
	return last == 0 || last == 255
}

func pick(t *rapid.T, p *Pool, m *model, now time.Time, rest time.Duration) {
	m.wake(now, rest)
	s, band := p.Space(), p.Band()
	mayPick := func(v Value) bool { return !s.AvoidsBuggyIPs() || !isBuggy(v) }
	upper, lower := m.freeAnd(s, band, s.Size(), mayPick), m.freeAnd(s, 0, band, mayPick)
	v, class, err := p.Pick(now)
	rested := class == UpperResting || class == LowerResting
	resting := func(inLower bool) (n int) { // in one of the bands
		for o := range m.resting {
			if i, _ := s.Index(o); (i < band) == inLower && mayPick(o) {
				n++
			}
		}
		return n
	}
	if errors.Is(err, ErrFull) {
		for i := range s.Size() {
			if v := s.Value(i); mayPick(v) && !m.used[v] {
				t.Fatalf("full, though %v is not in use", v)
			}
		}
		return
	}
	i, inside := s.Index(v)
	since, rests := m.resting[v]
	switch {
	case err != nil || !inside || !mayPick(v) || m.used[v] || rests != rested:
		t.Fatalf("picked %v (inside %v, used %v, rests %v, said %v): %v", v, inside, m.used[v], rests, rested, err)
	case upper > 0 && (i < band || rests):
		t.Fatalf("picked %v while the upper band has %d free", v, upper)
	case upper == 0 && resting(false) > 0 && (i < band || !rests):
		t.Fatalf("picked %v while the upper band has %d at rest", v, resting(false))
	case upper+resting(false) == 0 && lower > 0 && (i >= band || rests):
		t.Fatalf("picked %v while the lower band has %d free", v, lower)
	case rests:
		for o, at := range m.resting {
			if j, _ := s.Index(o); mayPick(o) && at.Before(since) && (j < band) == (i < band) {
				t.Fatalf("picked %v, which rests since %v, while %v rests since %v", v, since, o, at)
			}
		}
	}
	if err := p.Allocate(v); err != nil {
		t.Fatalf("Take of the picked %v: %v", v, err)
	}
	m.used[v] = true
	delete(m.resting, v)
}

func TestSetFindsTheNextAbsent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]uint64{1, 63, 64, 65, 4095, 4096, 4097, 1 << 20, 1<<64 - 1}).Draw(t, "size")
		base := rapid.Uint64Range(0, size-1).Draw(t, "base")
		near := rapid.Custom(func(t *rapid.T) uint64 {
			return min(size-1, base+min(size-1-base, rapid.Uint64Range(0, 200).Draw(t, "d")))
		})
		s, want := newSet(size), map[uint64]bool{}
		for range rapid.IntRange(0, 400).Draw(t, "n") {
			v := near.Draw(t, "v")
			if rapid.IntRange(0, 4).Draw(t, "op") == 0 {
				if s.remove(v) != want[v] {
					t.Fatalf("remove(%d) is wrong", v)
				}
				delete(want, v)
			} else {
				if s.add(v) == want[v] {
					t.Fatalf("add(%d) is wrong", v)
				}
				want[v] = true
			}
		}
		from := near.Draw(t, "from")
		expect, ok := from, false
		for ; expect < size; expect++ {
			if !want[expect] {
				ok = true
				break
			}
		}
		if got, found := s.nextAbsent(from, size); found != ok || ok && got != expect {
			t.Fatalf("nextAbsent(%d, %d) = %d %v, want %d %v", from, size, got, found, expect, ok)
		}
		if s.count != uint64(len(want)) || s.contains(from) != want[from] {
			t.Fatalf("count %d, want %d", s.count, len(want))
		}
	})
}

func TestVeryLargePoolCostsWhatIsUsedOfIt(t *testing.T) {
	s, _ := Parse("fd00::/64")
	p := New(s, s.Band(), time.Minute)
	seen := map[Value]bool{}
	for range 10_000 {
		v, _, err := p.Pick(epoch)
		if err != nil || seen[v] {
			t.Fatalf("picked %v again, or %v", v, err)
		}
		seen[v] = true
		if err := p.Allocate(v); err != nil {
			t.Fatal(err)
		}
	}
	p.random = func(n uint64) uint64 { return n - 1 } // always the end of the range
	for range 100 {
		p.picksLeft = 0
		v, _, err := p.Pick(epoch)
		if err != nil || p.Allocate(v) != nil {
			t.Fatalf("%v: %v", v, err)
		}
	}
}

// TestNeighboursAreHandedOutTogether checks that picks continue from a random start for a while.
func TestNeighboursAreHandedOutTogether(t *testing.T) {
	s, _ := Parse("10.0.0.0/12")
	p := New(s, s.Band(), time.Minute)
	starts := 0
	p.random = func(uint64) uint64 { starts++; return uint64(starts * 10_000) }
	var last uint64
	for n := range 2 * picksPerStart {
		v, _, err := p.Pick(epoch)
		if err != nil || p.Allocate(v) != nil {
			t.Fatalf("%v: %v", v, err)
		}
		i, _ := s.Index(v)
		if n%picksPerStart != 0 && i != last+1 {
			t.Fatalf("pick %d is %d, after %d", n, i, last)
		}
		last = i
	}
	if starts != 2 {
		t.Errorf("%d random starts for %d picks", starts, 2*picksPerStart)
	}
}

func BenchmarkPickFromAlmostFull(b *testing.B) {
	s, _ := Parse("10.0.0.0/12")
	p := New(s, s.Band(), 0)
	for i := range s.Size() {
		p.blocked.add(i)
	}
	p.Free(s.Value(s.Size() / 2))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := p.Pick(epoch); err != nil {
			b.Fatal(err)
		}
	}
}

// TestWhatHasRestedIsFree checks, with calls of Pick only, that a value counts as at rest until its rest is
// over, and as free from then on.
func TestWhatHasRestedIsFree(t *testing.T) {
	s, err := Parse("8-8")
	if err != nil {
		t.Fatal(err)
	}
	p := New(s, 0, time.Minute)
	if err := p.Allocate(PortValue(8)); err != nil {
		t.Fatal(err)
	}
	p.Release(PortValue(8), epoch)
	for _, c := range []struct {
		after time.Duration
		class Class
	}{{0, UpperResting}, {time.Minute - 1, UpperResting}, {time.Minute, Upper}} {
		if v, class, err := p.Pick(epoch.Add(c.after)); err != nil || v != PortValue(8) || class != c.class {
			t.Errorf("after %s: %s of class %d, %v; want class %d", c.after, v, class, err, c.class)
		}
	}
}
