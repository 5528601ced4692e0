package bench

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	allocatorv1 "portolan.dev/api/allocator/v1"
	"portolan.dev/services/kit/yardstick"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

const (
	// large is the pool of the measurements: a /12 has 1,048,574 addresses.
	large = "10.16.0.0/12"
	useIP = allocatorv1.Use_USE_CLUSTER_IP
	rest  = 5 * time.Minute
	// pairs is the number of allocations with a release of one round.
	pairs = 20000
	slot  = "clusterIPs/IPv4"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// ownerAt returns the i-th service, with texts of its own, as if it came from a call or a store.
func ownerAt(i uint64) store.Owner {
	return store.Owner{
		UID: fmt.Sprintf("%08x-0000-4000-8000-%012x", i, i), Kind: string([]byte("Service")),
		Namespace: fmt.Sprint("namespace-", i%100), Name: fmt.Sprint("service-", i),
	}
}

// tableOf returns a table with a pool and its space.
func tableOf(t *testing.T, text string) (*allocation.Table, pool.Space) {
	t.Helper()
	space, err := pool.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	p := store.Pool{Name: "ips", Use: useIP, Range: text, State: allocatorv1.PoolState_POOL_STATE_ACTIVE, Band: space.Band()}
	table, err := allocation.New([]store.Pool{p}, rest)
	if err != nil {
		t.Fatal(err)
	}
	return table, space
}

// restore adds a confirmed allocation, as it is read from a store.
func restore(t *testing.T, table *allocation.Table, i uint64, v pool.Value) {
	t.Helper()
	if err := table.Restore(allocationAt(i, v)); err != nil {
		t.Fatal(err)
	}
}

// filled returns a table of the large pool in which every value is in use for which used returns
// true.
func filled(t *testing.T, used func(i, size uint64) bool) *allocation.Table {
	t.Helper()
	table, space := tableOf(t, large)
	for i := range space.Size() {
		if used(i, space.Size()) {
			restore(t, table, i, space.Value(i))
		}
	}
	return table
}

// TestMeasurePicking is TestMeasureFill without the store: the decision, the writes for the store, and
// the release. The remaining difference between fills comes from accesses to memory outside the caches.
func TestMeasurePicking(t *testing.T) {
	onlyToMeasure(t)
	empty, nowEmpty := filled(t, func(uint64, uint64) bool { return false }), epoch
	for _, fill := range fills() {
		table := filled(t, fill.used)
		var costs, ofEmpty, ratios []float64
		now := epoch
		runtime.GC()
		collect := debug.SetGCPercent(-1) // a collection would count for the table that is measured at that moment
		for range rounds {
			cost, of := µs(pairsIn(t, table, &now)), µs(pairsIn(t, empty, &nowEmpty))
			costs, ofEmpty, ratios = append(costs, cost), append(ofEmpty, of), append(ratios, cost/of)
		}
		debug.SetGCPercent(collect)
		fmt.Printf("processor time of an allocation with its release, in memory: %s %.2f µs, empty %.2f µs, medians of %d rounds\n", fill.name, median(costs), median(ofEmpty), rounds)
		ratio(fill.name+"_memory_vs_empty", median(ratios), yardstick.Target{})
	}
}

// pairsIn returns the mean processor time of an allocation with its release. Each value is released half a
// rest after it was allocated, so that values in use, at rest and free are always there.
func pairsIn(t *testing.T, table *allocation.Table, now *time.Time) time.Duration {
	t.Helper()
	const kept = 100
	owners := make([]store.Owner, pairs)
	for i := range owners {
		owners[i] = ownerAt(1<<40 + uint64(i))
	}
	wish := []allocation.ClaimRequest{{Slot: slot, Use: useIP}}
	release := func(o store.Owner) {
		var c allocation.Change
		if freed := table.Release(*now, o.UID, nil, &c); len(freed) != 1 || len(c.Batch().Writes) != 1 {
			t.Fatalf("released %v", freed)
		}
	}
	began := cpu(t)
	for i, o := range owners {
		*now = now.Add(rest / kept / 2)
		var c allocation.Change
		if got, failures := table.Allocate(*now, o, wish, &c); len(got) != 1 || len(c.Batch().Writes) != 1 {
			t.Fatalf("allocated %v, %v", got, failures)
		}
		if i >= kept {
			release(owners[i-kept])
		}
	}
	took := cpu(t) - began
	for _, o := range owners[pairs-kept:] {
		release(o)
	}
	*now = now.Add(rest)
	return took / pairs
}

// TestMeasureMemory measures the memory that a table takes.
func TestMeasureMemory(t *testing.T) {
	onlyToMeasure(t)
	const million = 1 << 20
	report := func(name, what string, fill func() (*allocation.Table, uint64)) {
		before := heap()
		table, n := fill()
		used := heap() - before
		runtime.KeepAlive(table)
		fmt.Printf("memory of %s: %.0f MB, %d bytes for each of %d addresses\n", what, float64(used)/1e6, used/n, n)
		ratio(name, float64(used)/float64(n), yardstick.Target{})
	}
	report("bytes_per_address_full_12", "a full /12", func() (*allocation.Table, uint64) {
		table := filled(t, func(uint64, uint64) bool { return true })
		p, _ := table.PoolStatus("ips", epoch)
		return table, p.Used
	})
	report("bytes_per_address_64", "a /64 with picked addresses", func() (*allocation.Table, uint64) {
		table, _ := tableOf(t, "fd00::/64")
		for i := range uint64(million) {
			var c allocation.Change
			o := ownerAt(i)
			if got, failures := table.Allocate(epoch, o, []allocation.ClaimRequest{{Slot: string([]byte(slot)), Use: useIP}}, &c); len(got) != 1 {
				t.Fatalf("allocated %v, %v", got, failures)
			}
		}
		return table, million
	})
	report("bytes_per_address_64_scattered", "a /64 with addresses at random, each asked for", func() (*allocation.Table, uint64) {
		table, space := tableOf(t, "fd00::/64")
		random := rand.New(rand.NewPCG(3, 4))
		for i := range uint64(million) {
			restore(t, table, i, space.Value(random.Uint64N(space.Size())))
		}
		return table, million
	})
}

// heap returns the bytes in use after a collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestMeasurePoolChanges measures for how long changes of a full pool keep other calls from being served. The
// engine holds its lock while it checks and replaces the pool.
func TestMeasurePoolChanges(t *testing.T) {
	onlyToMeasure(t)
	table := filled(t, func(uint64, uint64) bool { return true })
	for _, c := range []struct{ what, text string }{
		{"another state", ""}, {"a range twice as large", "10.0.0.0/11"}, {"the range of before", large},
	} {
		began := time.Now()
		p, err := table.CheckUpdate(store.Pool{Name: "ips", Range: c.text, State: allocatorv1.PoolState_POOL_STATE_DRAINING})
		if err != nil {
			t.Fatal(err)
		}
		checked := time.Since(began)
		if err := table.PutPool(p, epoch); err != nil {
			t.Fatal(err)
		}
		fmt.Printf("a full /12 gets %s: checked in %v, replaced in %v\n", c.what, checked, time.Since(began)-checked)
	}
}
