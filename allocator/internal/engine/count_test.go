package engine

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/store"
)

// allocate serves the claims of an owner. With dryRun it allocates nothing.
func allocate(t *testing.T, e *Engine, uid string, dry bool, wants ...allocation.ClaimRequest) SetResult {
	t.Helper()
	results, err := e.Allocate(t.Context(), []Set{{Owner: store.Owner{UID: uid}, Requests: wants}}, dry)
	if err != nil {
		t.Fatal(err)
	}
	return results[0]
}

func TestAllocationsAndFailuresAreCounted(t *testing.T) {
	e, reg := openEngine(t, openStore(t))
	createPool(t, e, ports)
	dynamic := func(slot string) allocation.ClaimRequest { return allocation.ClaimRequest{Slot: slot, Use: ports.Use} }
	static := func(slot, value string) allocation.ClaimRequest {
		return allocation.ClaimRequest{Slot: slot, Use: ports.Use, Value: value}
	}
	allocate(t, e, "u1", false, static("b", "30005"), dynamic("a"), dynamic("c"))
	allocate(t, e, "u1", false, dynamic("a"), static("b", "30005"))    // has them already
	allocate(t, e, "u2", true, dynamic("a"))                           // dry run
	allocate(t, e, "u3", false, dynamic("a"), static("b", "30005"))    // is in use
	allocate(t, e, "u4", false, static("a", "40000"), dynamic("fine")) // is in no pool
	want := `
# HELP portolan_allocator_allocated Values in use.
# TYPE portolan_allocator_allocated gauge
portolan_allocator_allocated{pool="ports"} 3
# HELP portolan_allocator_allocation_errors_total Claims that could not be served, by pool (empty: none fits) and scope.
# TYPE portolan_allocator_allocation_errors_total counter
portolan_allocator_allocation_errors_total{pool="",scope="static"} 1
portolan_allocator_allocation_errors_total{pool="ports",scope="static"} 1
# HELP portolan_allocator_allocations_total Values allocated, by pool and by whether the value was requested (static) or chosen (dynamic).
# TYPE portolan_allocator_allocations_total counter
portolan_allocator_allocations_total{pool="ports",scope="dynamic"} 2
portolan_allocator_allocations_total{pool="ports",scope="static"} 1
# HELP portolan_allocator_available Values not in use that are given unasked; those at rest or at hand at registries count.
# TYPE portolan_allocator_available gauge
portolan_allocator_available{pool="ports"} 7
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "portolan_allocator_allocated", "portolan_allocator_available",
		"portolan_allocator_allocation_errors_total", "portolan_allocator_allocations_total"); err != nil {
		t.Error(err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]uint64{}
	for _, family := range families {
		counted[family.GetName()] = family.GetMetric()[0].GetHistogram().GetSampleCount()
	}
	for _, name := range []string{"portolan_allocator_batch_requests", "portolan_allocator_batch_seconds"} {
		if counted[name] != 5 {
			t.Errorf("%s has %d batches, want 5", name, counted[name])
		}
	}
}

func TestConfirmedAndReleasedSlotsAreCounted(t *testing.T) {
	e, _ := openEngine(t, openStore(t))
	createPool(t, e, ports)
	for _, uid := range []string{"u1", "u2"} {
		allocate(t, e, uid, false, allocation.ClaimRequest{Slot: "a", Use: ports.Use}, allocation.ClaimRequest{Slot: "b", Use: ports.Use})
	}
	confirmed, unknown, err := e.Confirm(t.Context(), []OwnerSlots{{UID: "u1"}, {UID: "u2", Slots: []string{"a", "x"}}, {UID: "u3"}})
	if want := []string{"u2/x", "u3/"}; err != nil || confirmed != 3 || !slices.Equal(unknown, want) {
		t.Errorf("confirmed %d, unknown %q, %v; want 3, %q", confirmed, unknown, err, want)
	}
	released, err := e.Release(t.Context(), []OwnerSlots{{UID: "u1"}, {UID: "u2", Slots: []string{"b", "x"}}, {UID: "u3"}})
	if err != nil || released != 3 {
		t.Errorf("released %d, %v; want 3", released, err)
	}
}
