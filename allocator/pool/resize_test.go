package pool

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestAResizedPoolHasTheSameValues resizes pools at random, and compares the new pool with one to
// which each value was added by itself.
func TestAResizedPoolHasTheSameValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranges := rapid.SampledFrom([][]string{
			{"10.0.0.64/27", "10.0.0.64/26", "10.0.0.0/25", "10.0.0.0/24", "10.0.0.0/23", "10.0.0.80/28", "10.1.0.0/24", "fd00::/120"},
			{"30000-30050", "30000-30100", "29900-30200", "30010-30060", "40000-40100", "1-65535"},
			{"fd00::40/122", "fd00::/64", "fd00::/112", "fd00:0:0:1::/64"},
		}).Draw(t, "ranges")
		parse := func(text string) Space {
			s, err := Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		from, to := parse(ranges[0]), parse(rapid.SampledFrom(ranges).Draw(t, "range"))
		if rapid.Bool().Draw(t, "for each protocol") {
			from, to = from.PerProtocol(), to.PerProtocol()
		}
		if rapid.Bool().Draw(t, "avoid") {
			from, to = from.AvoidingBuggyIPs(), to.AvoidingBuggyIPs()
		}
		p := New(from, from.Band(), time.Minute)
		want := New(to, to.Band(), time.Minute)
		leftOut := map[Value]bool{}
		now := epoch
		for _, i := range rapid.SliceOfN(rapid.Uint64Range(0, min(from.Size(), 153)-1), 0, 60).Draw(t, "values") {
			now = now.Add(rapid.SampledFrom([]time.Duration{0, time.Second, -time.Second}).Draw(t, "clock"))
			v := from.Value(i)
			if p.Allocate(v) != nil {
				continue
			}
			rests := rapid.Bool().Draw(t, "rests")
			_, in := to.Index(v)
			if rests {
				p.Release(v, now)
			}
			if !rests && !in {
				leftOut[v] = true
			}
			if in && want.Allocate(v) == nil && rests {
				want.Release(v, now)
			}
		}
		if first, n := p.LeftOutBy(to); n != uint64(len(leftOut)) || n > 0 && !leftOut[first] {
			t.Fatalf("%s to %s leaves out %s and %d values, want %v", from, to, first, n, leftOut)
		}
		got, err := p.Resized(to, to.Band())
		if len(leftOut) > 0 {
			if !errors.Is(err, ErrNotInRange) {
				t.Fatalf("%s to %s: %v, want that a value in use is not in the range", from, to, err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if got.Used() != want.Used() || got.Avoided() != want.Avoided() || got.LowerUsed() != want.LowerUsed() || got.Resting(now) != want.Resting(now) || got.UpperFree(now) != want.UpperFree(now) {
			t.Fatalf("%s to %s: used %d, %d of the lower band, %d at rest, %d of the upper band free; want %d, %d, %d, %d", from, to,
				got.Used(), got.LowerUsed(), got.Resting(now), got.UpperFree(now), want.Used(), want.LowerUsed(), want.Resting(now), want.UpperFree(now))
		}
		for i := range from.Size() {
			v := from.Value(i)
			since, rests := got.RestingSince(v)
			if at, yes := want.RestingSince(v); yes != rests || !at.Equal(since) {
				t.Fatalf("%s rests %v since %v, want %v since %v", v, rests, since, yes, at)
			}
			if a, b := got.Allocate(v), want.Allocate(v); !errors.Is(a, b) {
				t.Fatalf("Allocate(%s) = %v, want %v", v, a, b)
			}
		}
	})
}

// TestValuesRestInTheirOrderAfterAResize checks that the value that has rested longest is picked
// first, also if the values were in different bands.
func TestValuesRestInTheirOrderAfterAResize(t *testing.T) {
	from, to := mustParse(t, "10.0.0.0/27"), mustParse(t, "10.0.0.0/28") // the small pool has no lower band
	p := New(from, from.Band(), time.Hour)
	order := []uint64{3, 12, 1, 7}
	for n, i := range order {
		if err := p.Allocate(from.Value(i)); err != nil {
			t.Fatal(err)
		}
		p.Release(from.Value(i), epoch.Add(time.Duration(n)*time.Second))
	}
	fresh, err := p.Resized(to, 0)
	if err != nil {
		t.Fatal(err)
	}
	now := epoch.Add(time.Minute)
	for range to.Size() - uint64(len(order)) {
		v, class, err := fresh.Pick(now)
		if err != nil || class != Upper || fresh.Allocate(v) != nil {
			t.Fatalf("picked %v %v %v", v, class, err)
		}
	}
	for _, i := range order {
		v, class, err := fresh.Pick(now)
		if err != nil || class != UpperResting || v != from.Value(i) {
			t.Errorf("picked %v %v %v, want %v", v, class, err, from.Value(i))
		}
		if err := fresh.Allocate(v); err != nil {
			t.Fatal(err)
		}
	}
}

func mustParse(t *testing.T, text string) Space {
	t.Helper()
	s, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
