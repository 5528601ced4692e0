package allocation

import (
	"fmt"
	"testing"
	"time"

	allocatorv1 "portolan.dev/api/allocator/v1"

	"portolan.dev/allocator/store"
)

const (
	rest  = 5 * time.Minute
	useIP = allocatorv1.Use_USE_CLUSTER_IP
)

// testTable is a table with the pool "ips", and a clock.
type testTable struct {
	*testing.T
	table *Table
	now   time.Time
	owner int // the last one
}

func newTestTable(t *testing.T, text string) *testTable {
	t.Helper()
	table, err := New(nil, rest)
	if err != nil {
		t.Fatal(err)
	}
	w := &testTable{T: t, table: table, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	p, err := table.CheckCreate(store.Pool{Name: "ips", Use: useIP, Range: text})
	if err != nil {
		t.Fatal(err)
	}
	w.put(p)
	return w
}

func (w *testTable) put(p store.Pool) {
	w.Helper()
	if err := w.table.PutPool(p, w.now); err != nil {
		w.Fatal(err)
	}
}

// update checks and applies an update of the pool.
func (w *testTable) update(p store.Pool) {
	w.Helper()
	p.Name = "ips"
	p, err := w.table.CheckUpdate(p)
	if err != nil {
		w.Fatal(err)
	}
	w.put(p)
}

// allocate allocates a value, "" for any, to a new owner. It returns the value, or "" on failure.
func (w *testTable) allocate(value string) string {
	w.Helper()
	w.owner++
	var c Change
	got, failures := w.table.Allocate(w.now, store.Owner{UID: fmt.Sprint(w.owner)}, []ClaimRequest{{Slot: "ip", Use: useIP, Value: value}}, &c)
	if len(failures) > 0 {
		return ""
	}
	return got[0].Value.String()
}

// release releases the values of an owner.
func (w *testTable) release(owner int) {
	w.Helper()
	var c Change
	if freed := w.table.Release(w.now, fmt.Sprint(owner), nil, &c); len(freed) != 1 {
		w.Fatalf("owner %d released %v", owner, freed)
	}
}

// want checks the numbers of the pool.
func (w *testTable) want(band, size, used, static, resting uint64) {
	w.Helper()
	p, _ := w.table.PoolStatus("ips", w.now)
	if p.Band != band || p.Size != size || p.Used != used || p.StaticUsed != static || p.Resting != resting {
		w.Errorf("the pool has a band of %d and %d values, %d in use, %d of the band, %d at rest; want %d, %d, %d, %d, %d",
			p.Band, p.Size, p.Used, p.StaticUsed, p.Resting, band, size, used, static, resting)
	}
}

// TestRestedValuesComeBeforeTheStaticBand allocates until nothing is left. Values come from the
// dynamic band, then from the resting values of this band, the longest-resting first, then from the static
// band, and last from the resting values of the static band.
func TestRestedValuesComeBeforeTheStaticBand(t *testing.T) {
	w := newTestTable(t, "10.0.0.0/27") // 16 values of the static band, 14 of the dynamic one
	for i := 1; i <= 16; i++ {
		if value := fmt.Sprint("10.0.0.", i); w.allocate(value) != value {
			t.Fatalf("%s is not to be had", value)
		}
	}
	dynamic := map[string]int{}
	for range 14 {
		dynamic[w.allocate("")] = w.owner
	}
	if len(dynamic) != 14 || dynamic[""] != 0 {
		t.Fatalf("the dynamic band gave %v", dynamic)
	}
	w.want(16, 30, 30, 16, 0)
	if got := w.allocate(""); got != "" {
		t.Errorf("a full pool gave %s", got)
	}
	w.release(3) // of the static band, the first to rest
	for _, value := range []string{"10.0.0.20", "10.0.0.18"} {
		w.now = w.now.Add(time.Second)
		w.release(dynamic[value])
	}
	w.now = w.now.Add(time.Second)
	w.release(7)
	w.want(16, 30, 26, 14, 4)
	for _, value := range []string{"10.0.0.20", "10.0.0.18", "10.0.0.3", "10.0.0.7", ""} {
		if got := w.allocate(""); got != value {
			t.Errorf("got %q, want %q", got, value)
		}
	}
	w.want(16, 30, 30, 16, 0)
}

// TestBandsAreComputedAnew resizes a pool with values in use and at rest in both bands.
func TestBandsAreComputedAnew(t *testing.T) {
	w := newTestTable(t, "10.0.0.0/24")
	for _, value := range []string{"10.0.0.3", "10.0.0.20", "10.0.0.40", "10.0.0.4", "10.0.0.21", "10.0.0.60"} {
		w.allocate(value)
	}
	w.release(4) // 10.0.0.4
	w.release(5) // 10.0.0.21
	w.want(16, 254, 4, 1, 2)
	w.update(store.Pool{Range: "10.0.0.0/22"})
	w.want(64, 1022, 4, 4, 2)
	w.update(store.Pool{State: allocatorv1.PoolState_POOL_STATE_DRAINING})
	w.want(64, 1022, 4, 4, 2)
	w.update(store.Pool{Range: "10.0.0.0/26"})
	w.want(16, 62, 4, 1, 2)
	w.update(store.Pool{State: allocatorv1.PoolState_POOL_STATE_ACTIVE})
	if got := w.allocate("10.0.0.60"); got != "" {
		t.Errorf("%s has two owners after the changes", got)
	}
	for range 62 - 16 - 3 - 1 { // all free values of the dynamic band
		if got := w.allocate(""); got == "10.0.0.21" || got == "" {
			t.Fatalf("got %q while values are free that do not rest", got)
		}
	}
	if got := w.allocate(""); got != "10.0.0.21" {
		t.Errorf("got %q, want the value that rests since before the changes", got)
	}
	w.now = w.now.Add(rest)
	w.want(16, 62, 47, 1, 0)
}

// TestABandThatWasChosenStays resizes a pool that was created with a band of its own.
func TestABandThatWasChosenStays(t *testing.T) {
	w := newTestTable(t, "10.0.0.0/24")
	w.table.RemovePool("ips")
	w.put(store.Pool{Name: "ips", Use: useIP, Range: "10.0.0.0/24", State: allocatorv1.PoolState_POOL_STATE_ACTIVE, Band: 100})
	w.update(store.Pool{Range: "10.0.0.0/23"})
	w.want(100, 510, 0, 0, 0)
}
