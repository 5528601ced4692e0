package engine

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	allocatorv1 "portolan.dev/api/allocator/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/kittest"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/internal/sqlite"
	"portolan.dev/allocator/store"
)

// ports is a pool of ten ports.
var ports = store.Pool{Name: "ports", Use: allocatorv1.Use_USE_NODE_PORT, Range: "30000-30009"}

// openStore opens a new store, which is closed when the test ends.
func openStore(t *testing.T) store.Store {
	t.Helper()
	st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "a.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

// openEngine returns an engine on a store, and its metrics.
func openEngine(t *testing.T, st store.Store) (*Engine, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	e, err := New(t.Context(), Config{Store: st, Log: kittest.Logger(t), Metrics: reg, Rest: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e, reg
}

func createPool(t *testing.T, e *Engine, p store.Pool) {
	t.Helper()
	if _, err := e.CreatePool(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

// retire sets the state of a pool to retired, so that it can be deleted.
func retire(t *testing.T, e *Engine, p store.Pool) allocation.PoolStatus {
	t.Helper()
	p.State = allocatorv1.PoolState_POOL_STATE_RETIRED
	fill, err := e.UpdatePool(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return fill
}

func TestADeletedPoolIsGone(t *testing.T) {
	e, _ := openEngine(t, openStore(t))
	createPool(t, e, ports)
	retire(t, e, ports)
	if err := e.DeletePool(t.Context(), ports.Name); err != nil {
		t.Fatal(err)
	}
	if pools := e.Pools(); len(pools) != 0 {
		t.Errorf("after the deletion there are the pools %v", pools)
	}
	if err := e.DeletePool(t.Context(), ports.Name); !apierr.IsNotFound(err) {
		t.Errorf("deleted again: %v, want that there is no such pool", err)
	}
	again := ports
	again.Range = "30005-30020" // overlaps the deleted pool
	createPool(t, e, again)
}

// TestPoolsOfAnotherProcess changes a pool with one engine. Another engine on the same store must
// answer as if it had read the change, and must have the change afterwards.
func TestPoolsOfAnotherProcess(t *testing.T) {
	st := openStore(t)
	first, _ := openEngine(t, st)
	want := func(what string, err error, code codes.Code) {
		t.Helper()
		if apierr.Code(err) != code {
			t.Errorf("%s: %v, want %s", what, err, code)
		}
	}
	other, _ := openEngine(t, st)
	createPool(t, first, ports)
	_, err := other.CreatePool(t.Context(), ports)
	want("create a pool that was created", err, codes.AlreadyExists)
	retire(t, other, ports)
	if r := allocate(t, first, "u", false, allocation.ClaimRequest{Slot: "p", Use: ports.Use}); len(r.Failures) == 0 {
		t.Errorf("%v was allocated from a pool that was retired", r.Results)
	}

	active := ports
	active.State = allocatorv1.PoolState_POOL_STATE_ACTIVE
	if _, err := first.UpdatePool(t.Context(), active); err != nil {
		t.Fatal(err)
	}
	if r := allocate(t, other, "u", false, allocation.ClaimRequest{Slot: "p", Use: ports.Use}); len(r.Results) != 1 {
		t.Errorf("nothing was allocated from a pool that is active again: %v", r.Failures)
	}
	if fill := retire(t, first, ports); fill.Used != 1 {
		t.Errorf("it believes that %d values of the pool are in use, want 1", fill.Used)
	}
	want("delete a pool in which something was allocated", first.DeletePool(t.Context(), ports.Name), codes.FailedPrecondition)

	if _, err := first.Release(t.Context(), []OwnerSlots{{UID: "u"}}); err != nil {
		t.Fatal(err)
	}
	if err := other.DeletePool(t.Context(), ports.Name); err != nil {
		t.Fatal(err)
	}
	want("delete a pool that was deleted", first.DeletePool(t.Context(), ports.Name), codes.NotFound)
	_, err = first.UpdatePool(t.Context(), ports)
	want("update a pool that was deleted", err, codes.NotFound)
	if err := other.Refresh(t.Context()); err != nil || len(other.Pools()) != 0 {
		t.Errorf("the pools are %v, %v", other.Pools(), err)
	}
	createPool(t, first, ports)
	if err := other.Refresh(t.Context()); err != nil || len(other.Pools()) != 1 {
		t.Errorf("the pools are %v, %v", other.Pools(), err)
	}
}
