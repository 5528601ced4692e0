package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"portolan.dev/allocator/store"
)

// reserve returns a ReserveWrite that stores a reserve.
func reserve(holder string, grant uint64, renewed time.Time) store.ReserveWrite {
	return store.ReserveWrite{Reserve: store.Reserve{Holder: holder, Grant: grant, Renewed: renewed}}
}

// noReserve returns a ReserveWrite that removes a reserve.
func noReserve(holder string) store.ReserveWrite {
	return store.ReserveWrite{Reserve: store.Reserve{Holder: holder}, Removed: true}
}

func applyReserves(t *testing.T, s store.Store, writes ...store.ReserveWrite) {
	t.Helper()
	applyBatch(t, s, store.Batch{Reserves: writes})
}

// wantReserves checks all reserves in text form.
func wantReserves(t *testing.T, s store.Store, lines ...string) {
	t.Helper()
	var got []string
	err := s.Snapshot(t.Context(), func(content store.Snapshot) error {
		for _, r := range content.Reserves {
			got = append(got, reserveText(r))
		}
		return nil
	})
	if err != nil || !slices.Equal(got, lines) {
		t.Errorf("reserves %q (%v), want %q", got, err, lines)
	}
}

func reserveText(r store.Reserve) string {
	return fmt.Sprint(r.Holder, " ", r.Grant, "+", r.Renewed.Sub(t0).Milliseconds())
}

func testReserves(t *testing.T, s store.Store) {
	wantReserves(t, s)
	applyReserves(t, s, reserve("two", 1, t0), reserve("one", 7, t0.Add(time.Millisecond)), noReserve("none"))
	wantReserves(t, s, "one 7+1", "two 1+0")
	applyReserves(t, s, noReserve("one"), reserve("two", 2, t0.Add(time.Second)))
	wantReserves(t, s, "two 2+1000")
	applyReserves(t, s)
	wantReserves(t, s, "two 2+1000")
}

func testReservesAtomic(t *testing.T, s store.Store) {
	prepare(t, s)
	both := store.Batch{Writes: []store.Write{allocate(v1, store.Owner{UID: "r"}, claim("grant/1", true, t0))}, Reserves: []store.ReserveWrite{reserve("r", 1, t0)}}
	applyBatch(t, s, both)
	want(t, s, "30001 ports r grant/1=true+0")
	wantReserves(t, s, "r 1+0")
	both.Reserves = []store.ReserveWrite{noReserve("r"), reserve("q", 1, t0)}
	var conflict *store.ConflictError
	if err := try(t, s, both); !errors.As(err, &conflict) {
		t.Errorf("a conflict was applied: %v", err)
	}
	wantReserves(t, s, "r 1+0")
}
