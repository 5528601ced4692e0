package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// RunShared runs the tests of a store that several processes use. place returns a function that
// opens the same, initially empty store each time.
func RunShared(t *testing.T, place func(t *testing.T) Open) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Open)
	}{
		{"news", testNews},
		{"one decision at a time", testOneAtATime},
		{"restored for others", testRestoredForOthers},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, place(t)) })
	}
}

// newsText returns news in text form, without the position.
func newsText(n store.News) string {
	var lines []string
	if n.PoolsChanged {
		for _, p := range n.Pools {
			lines = append(lines, fmt.Sprint("pool ", p.Name, " ", p.Range))
		}
		lines = append(lines, "no other pool")
	}
	for _, h := range n.Allocations {
		lines = append(lines, text(h))
	}
	for _, v := range n.Free {
		lines = append(lines, v.String()+" free")
	}
	for _, r := range n.Reserves {
		line := reserveText(r.Reserve)
		if r.Removed {
			line = r.Holder + " removed"
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}

func testNews(t *testing.T, open Open) {
	writer, reader := open(t), open(t)
	seen := position(t, reader)
	expect := func(what, want string) {
		t.Helper()
		n, err := reader.News(t.Context(), seen)
		if got := newsText(n); err != nil || got != want || n.Position != position(t, writer) {
			t.Errorf("%s: News returned %q at %v (%v), want %q", what, got, n.Position, err, want)
		}
		called := false
		at, err := reader.Transact(t.Context(), seen, func(n store.News) (store.Batch, error) {
			called = true
			if got := newsText(n); got != want {
				t.Errorf("%s: Transact gave %q, want %q", what, got, want)
			}
			return store.Batch{}, nil
		})
		if err != nil || !called || at != n.Position {
			t.Errorf("%s: %v, called %t, at %v, want %v", what, err, called, at, n.Position)
		}
		seen = n.Position
	}
	expect("nothing has happened", "")
	prepare(t, writer)
	expect("a pool", "no other pool, pool ports 30000-30099")
	apply(t, writer, allocate(v1, a, claim("x", false, t0)), allocate(v2, b))
	apply(t, writer, keep(v1, a, claim("x", true, t0)))
	expect("two batches with one value", "30001 ports a x=true+0, 30002 ports b")
	apply(t, writer, rest(v1, a, t0))
	applyReserves(t, writer, reserve("one", 1, t0), reserve("two", 1, t0))
	applyReserves(t, writer, noReserve("two"), reserve("one", 2, t0))
	expect("a release and reserves", "30001 ports a released+0, one 2+0, two removed")
	apply(t, writer, rest(v2, b, t0.Add(time.Hour)))
	expect("another release", "30002 ports b released+3600000")
	if err := writer.DeleteExpired(t.Context(), t0.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	expect("an expired rest", "")
	applyBatch(t, writer, removePool("ports"))
	expect("a pool that is gone, with its values at rest", "30002 free, no other pool")
	expect("nothing more has happened", "")
}

// testOneAtATime lets two processes take the values of a small range, each in its own order. Each
// decides from the news only.
func testOneAtATime(t *testing.T, open Open) {
	const each = 40
	first := open(t)
	prepare(t, first)
	start := position(t, first)
	var wg sync.WaitGroup
	owners := make([]map[pool.Value]string, 2)
	for i := range owners {
		s, taken := open(t), map[pool.Value]string{}
		owners[i] = taken
		seen := start
		wg.Go(func() {
			for n := range each {
				at, err := s.Transact(t.Context(), seen, func(n store.News) (store.Batch, error) {
					for _, h := range n.Allocations {
						taken[h.Value] = h.Owner.UID
					}
					for port := uint16(30000); ; port++ {
						if v := pool.PortValue(port); taken[v] == "" {
							taken[v] = fmt.Sprint(i)
							return store.Batch{Writes: []store.Write{allocate(v, store.Owner{UID: fmt.Sprint(i)})}}, nil
						}
					}
				})
				if err != nil {
					t.Errorf("process %d, transaction %d: %v", i, n, err)
					return
				}
				seen = at
			}
		})
	}
	wg.Wait()
	counts := map[string]int{}
	err := open(t).Snapshot(t.Context(), func(content store.Snapshot) error {
		for h, err := range content.Allocations {
			if err != nil {
				return err
			}
			counts[h.Owner.UID]++
			for i, taken := range owners {
				if known := taken[h.Value]; known != "" && known != h.Owner.UID {
					t.Errorf("%s is of process %s, and process %d believes that it is of %s", h.Value, h.Owner.UID, i, known)
				}
			}
		}
		return nil
	})
	if err != nil || counts["0"] != each || counts["1"] != each {
		t.Errorf("the processes have %v (%v), want %d each", counts, err, each)
	}
}

func testRestoredForOthers(t *testing.T, open Open) {
	importer, running := open(t), open(t)
	prepare(t, running)
	apply(t, running, allocate(v1, a))
	seen := position(t, running)
	if err := importer.Restore(t.Context(), position(t, importer), content([]store.Pool{ports("ports")}, nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := running.News(t.Context(), seen); !errors.Is(err, store.ErrWentBack) {
		t.Errorf("News after the restore: %v", err)
	}
	if _, err := running.Transact(t.Context(), seen, nothing); !errors.Is(err, store.ErrWentBack) {
		t.Errorf("Transact after the restore: %v", err)
	}
}
