package bench

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	allocatorv1 "portolan.dev/api/allocator/v1"
	"portolan.dev/services/kit/yardstick"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/internal/engine"
	"portolan.dev/allocator/internal/sqlite"
	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// testEngine is an engine on an embedded store with the large pool.
type testEngine struct {
	*testing.T
	engine *engine.Engine
	next   uint64 // number of the next owner
}

// openEngine opens an engine in which every value is in use for which used returns true.
func openEngine(t *testing.T, used func(i, size uint64) bool) *testEngine {
	t.Helper()
	st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "allocator.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	space, err := pool.Parse(large)
	if err != nil {
		t.Fatal(err)
	}
	p := store.Pool{Name: "ips", Use: useIP, Range: large, State: allocatorv1.PoolState_POOL_STATE_ACTIVE, Band: space.Band()}
	b := store.Batch{Pools: []store.PoolWrite{{Pool: p}}}
	var at store.Position
	if err := st.Snapshot(t.Context(), func(content store.Snapshot) error {
		at = content.Position
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	flush := func() {
		var err error
		if at, err = st.Transact(t.Context(), at, func(store.News) (store.Batch, error) { return b, nil }); err != nil {
			t.Fatal(err)
		}
		b.Pools, b.Writes = nil, b.Writes[:0]
	}
	for i := range space.Size() {
		if used(i, space.Size()) {
			b.Writes = append(b.Writes, store.Write{Allocation: allocationAt(i, space.Value(i))})
		}
		if len(b.Writes) == 10000 {
			flush()
		}
	}
	flush()
	e, err := engine.New(t.Context(), engine.Config{Store: st, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Rest: rest})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return &testEngine{T: t, engine: e, next: 1 << 40}
}

// sets returns the claims of new owners, one each, and the owners.
func (e *testEngine) sets(n int) ([]engine.Set, []engine.OwnerSlots) {
	sets, owners := make([]engine.Set, n), make([]engine.OwnerSlots, n)
	for i := range sets {
		e.next++
		o := ownerAt(e.next)
		sets[i] = engine.Set{Owner: o, Requests: []allocation.ClaimRequest{{Slot: slot, Use: useIP}}}
		owners[i] = engine.OwnerSlots{UID: o.UID}
	}
	return sets, owners
}

func (e *testEngine) allocate(sets []engine.Set) {
	e.Helper()
	results, err := e.engine.Allocate(e.Context(), sets, false)
	if err != nil {
		e.Fatal(err)
	}
	for _, r := range results {
		if len(r.Failures) > 0 {
			e.Fatalf("allocate: %v", r.Failures)
		}
	}
}

// pairs returns the mean processor time of an allocation with its release, with size objects in a
// call.
func (e *testEngine) pairs(size, calls int) time.Duration {
	e.Helper()
	began := yardstick.CPUOfSelf()
	for range calls {
		sets, owners := e.sets(size)
		e.allocate(sets)
		if n, err := e.engine.Release(e.Context(), owners); err != nil || n != size {
			e.Fatalf("released %d of %d: %v", n, size, err)
		}
	}
	return (yardstick.CPUOfSelf() - began) / time.Duration(size*calls)
}

// TestMeasureFill compares the processor time of an allocation with its release, on the embedded
// store, in the large pool at several fills with that in an empty one.
func TestMeasureFill(t *testing.T) {
	onlyToMeasure(t)
	empty := openEngine(t, func(uint64, uint64) bool { return false })
	for _, f := range fills() {
		t.Run(f.name, func(t *testing.T) {
			full := openEngine(t, f.used)
			for _, c := range []struct {
				suffix      string
				size, calls int
				target      yardstick.Target
			}{{"_vs_empty", 1, 200, yardstick.AtMost(1.3)}, {"_batch100_vs_empty", 100, 10, yardstick.Target{}}} {
				var costs, ofEmpty, ratios []float64
				for range rounds {
					cost, of := µs(full.pairs(c.size, c.calls)), µs(empty.pairs(c.size, c.calls))
					costs, ofEmpty, ratios = append(costs, cost), append(ofEmpty, of), append(ratios, cost/of)
				}
				fmt.Printf("processor time of an allocation with its release, %d in a call: %s %.1f µs, empty %.1f µs, medians of %d rounds\n",
					c.size, f.name, median(costs), median(ofEmpty), rounds)
				ratio(f.name+c.suffix, median(ratios), c.target)
			}
		})
	}
}

// TestMeasureBatches allocates and confirms addresses on the embedded store, one call at a time. It
// compares calls for one object with calls for 100.
func TestMeasureBatches(t *testing.T) {
	onlyToMeasure(t)
	e := openEngine(t, func(uint64, uint64) bool { return false })
	perSecond := func(size, calls int) float64 {
		began := time.Now()
		for range calls {
			sets, owners := e.sets(size)
			e.allocate(sets)
			if n, unknown, err := e.engine.Confirm(t.Context(), owners); err != nil || n != size {
				t.Fatalf("confirm: %d, %v, %v", n, unknown, err)
			}
		}
		return float64(size*calls) / time.Since(began).Seconds()
	}
	var singles, hundreds, ratios []float64
	for range rounds {
		single, hundred := perSecond(1, 200), perSecond(100, 20)
		singles, hundreds, ratios = append(singles, single), append(hundreds, hundred), append(ratios, hundred/single)
	}
	fmt.Printf("allocated and confirmed: %.0f objects per second one by one, %.0f in batches of 100, medians of %d rounds\n", median(singles), median(hundreds), rounds)
	ratio("batch100_vs_single", median(ratios), yardstick.AtLeast(10))
}

// fill is a fill of the large pool.
type fill struct {
	name string
	used func(i, size uint64) bool
}

// fills returns the fills that are compared with an empty pool.
func fills() []fill {
	random := rand.New(rand.NewPCG(1, 2))
	return []fill{
		{"half", func(uint64, uint64) bool { return random.IntN(2) == 0 }},
		{"fill999", func(uint64, uint64) bool { return random.IntN(1000) > 0 }},
		{"fill999_first_free", func(i, size uint64) bool { return i < 256 || i > 256+size/1000 }},
		{"fill999_last_free", func(i, size uint64) bool { return i < size-size/1000 }},
	}
}

// allocationAt returns the confirmed allocation of a value to the i-th service, as it is read from
// a store.
func allocationAt(i uint64, v pool.Value) store.Allocation {
	return store.Allocation{
		Value: v, Pool: string([]byte("ips")), Owner: ownerAt(i),
		Claims: []store.Claim{{Slot: string([]byte(slot)), Confirmed: true, Since: epoch}},
	}
}
