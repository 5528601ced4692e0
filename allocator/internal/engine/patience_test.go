package engine

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// ips is a pool of 254 addresses, of which a reserve has 14 at most.
var ips = store.Pool{Name: "ips", Use: useIP, Range: "10.96.0.0/24"}

// reserveOf begins a reserve and returns so many values of it.
func reserveOf(t *testing.T, e *Engine, holder string, count uint64) []allocation.ReservedValue {
	t.Helper()
	return callOf(t, e, allocation.ReserveRequest{Holder: holder, Begin: true, Wishes: []allocation.ReserveCount{{Family: corev1.IPFamily_IP_FAMILY_IPV4, Count: count}}}).Granted
}

func callOf(t *testing.T, e *Engine, req allocation.ReserveRequest) allocation.ReserveResult {
	t.Helper()
	res, err := e.Reserve(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// wants returns a set of one owner that requests a value.
func wants(uid, value string) Set {
	return Set{Owner: store.Owner{UID: uid}, Requests: []allocation.ClaimRequest{{Slot: "ip", Use: useIP, Value: value}}}
}

// answer holds the results of AllocatePatiently.
type answer struct {
	results []SetResult
	err     error
}

// ask calls AllocatePatiently in the background.
func ask(ctx context.Context, e *Engine, dryRun bool, sets ...Set) <-chan answer {
	done := make(chan answer, 1)
	go func() {
		results, err := e.AllocatePatiently(ctx, sets, dryRun)
		done <- answer{results, err}
	}()
	return done
}

func TestWhoWaitsInVainIsToldWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, reg := openEngine(t, openStore(t))
		createPool(t, e, ips)
		v := reserveOf(t, e, "r1", 2)
		begin := time.Now()
		results, err := e.AllocatePatiently(t.Context(), []Set{wants("a", v[0].Value.String())}, false)
		if err != nil || len(results[0].Failures) != 1 || !results[0].Failures[0].IsAtHand() || time.Since(begin) != Patience {
			t.Errorf("%+v, %v after %s; want that the value is at hand, after %s", results, err, time.Since(begin), Patience)
		}
		want := `
# HELP portolan_allocator_allocation_errors_total Claims that could not be served, by pool (empty: none fits) and scope.
# TYPE portolan_allocator_allocation_errors_total counter
portolan_allocator_allocation_errors_total{pool="ips",scope="static"} 1
# HELP portolan_allocator_reserved Values at hand at registries, for services of the future.
# TYPE portolan_allocator_reserved gauge
portolan_allocator_reserved{pool="ips"} 2
# HELP portolan_allocator_reserves Registry processes that may have values at hand.
# TYPE portolan_allocator_reserves gauge
portolan_allocator_reserves 1
# HELP portolan_allocator_reserves_closed_total Reserves closed because their holders were not heard, or because the allocator or the registry's log began anew.
# TYPE portolan_allocator_reserves_closed_total counter
portolan_allocator_reserves_closed_total 1
# HELP portolan_allocator_settlements_ignored_total Settlements and returns of values that were no longer in the reserve.
# TYPE portolan_allocator_settlements_ignored_total counter
portolan_allocator_settlements_ignored_total 2
`
		reserveOf(t, e, "r2", 1)
		nobody := func(pool.Value) (store.Owner, string, bool) { return store.Owner{}, "", false }
		if n, err := e.CloseReserves(t.Context(), []string{"r2", "none"}, nobody); err != nil || n != 1 {
			t.Errorf("closed %d, %v", n, err)
		}
		other := allocation.ReservedValue{Value: v[0].Value, Grant: 9}
		callOf(t, e, allocation.ReserveRequest{Holder: "r1", Returned: []allocation.ReservedValue{other, other}})
		if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "portolan_allocator_allocation_errors_total", "portolan_allocator_reserved",
			"portolan_allocator_reserves", "portolan_allocator_reserves_closed_total", "portolan_allocator_settlements_ignored_total"); err != nil {
			t.Error(err)
		}
	})
}

// TestWaitingSetsAreServedWhenValuesComeBack allocates two sets, of which one waits for a value in a
// reserve. The other set has its value before that. A dry run waits too, and allocates nothing.
func TestWaitingSetsAreServedWhenValuesComeBack(t *testing.T) {
	for _, dry := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			e, _ := openEngine(t, openStore(t))
			createPool(t, e, ips)
			v := reserveOf(t, e, "r1", 2)
			begin := time.Now()
			done := ask(t.Context(), e, dry, wants("a", v[0].Value.String()), wants("b", ""))
			synctest.Wait()
			if used := e.Pools()[0].Used; used != map[bool]uint64{false: 1, true: 0}[dry] {
				t.Errorf("%d values are in use while one set waits", used)
			}
			if got := callOf(t, e, allocation.ReserveRequest{Holder: "r1"}).Recalled; len(got) != 1 || got[0] != v[0] {
				t.Fatalf("recalled %v, want %v", got, v[0])
			}
			callOf(t, e, allocation.ReserveRequest{Holder: "r1", Returned: v[:1]})
			got := <-done
			if got.err != nil || len(got.results[0].Results) != 1 || got.results[0].Results[0].Value != v[0].Value || len(got.results[1].Results) != 1 {
				t.Errorf("got %+v", got)
			}
			if took := time.Since(begin); took != 0 {
				t.Errorf("served after %s, want at once", took)
			}
			if owns := e.Owns("a", v[0].Value); owns == dry {
				t.Errorf("owns the value: %v, dry run: %v", owns, dry)
			}
		})
	}
}

// TestValuesThatAnotherProcessFreesAreNoticed lets another engine on the same store serve the holder.
func TestValuesThatAnotherProcessFreesAreNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := openStore(t)
		e, _ := openEngine(t, st)
		createPool(t, e, ips)
		v := reserveOf(t, e, "r1", 2)
		other, _ := openEngine(t, st)
		begin := time.Now()
		done := ask(t.Context(), e, false, wants("a", v[0].Value.String()))
		synctest.Wait()
		callOf(t, other, allocation.ReserveRequest{Holder: "r1", Returned: v[:1]})
		if got := <-done; got.err != nil || len(got.results[0].Results) != 1 || time.Since(begin) != lookEvery {
			t.Errorf("got %+v after %s, want the value after %s", got, time.Since(begin), lookEvery)
		}
	})
}

func TestWaitingEndsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := openEngine(t, openStore(t))
		createPool(t, e, ips)
		v := reserveOf(t, e, "r1", 1)
		ctx, cancel := context.WithCancel(t.Context())
		begin := time.Now()
		done := ask(ctx, e, false, wants("a", v[0].Value.String()))
		synctest.Wait()
		cancel()
		if got := <-done; time.Since(begin) != 0 {
			t.Errorf("got %+v after %s, want that it ends at once", got, time.Since(begin))
		}
	})
}

// TestPoolsWaitForTheirValues shrinks and deletes a pool with values in a reserve, first while the holder
// does not return them, and then while it does.
func TestPoolsWaitForTheirValues(t *testing.T) {
	small := store.Pool{Name: ips.Name, Range: "10.96.0.0/28"}
	for name, c := range map[string]struct {
		change func(t *testing.T, e *Engine) error
		takes  time.Duration // without an answer of the holder
	}{
		"shrink": {func(t *testing.T, e *Engine) error {
			_, err := e.UpdatePool(t.Context(), small)
			return err
		}, Patience},
		"retire and delete": {func(t *testing.T, e *Engine) error {
			retire(t, e, ips)
			return e.DeletePool(t.Context(), ips.Name)
		}, 2 * Patience},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, _ := openEngine(t, openStore(t))
				createPool(t, e, ips)
				v := reserveOf(t, e, "r1", 3)
				begin := time.Now()
				if err := c.change(t, e); apierr.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "3 values are at hand at registries") || time.Since(begin) != c.takes {
					t.Errorf("%v after %s", err, time.Since(begin))
				}
				done := make(chan error)
				go func() { done <- c.change(t, e) }()
				synctest.Wait()
				if got := callOf(t, e, allocation.ReserveRequest{Holder: "r1"}).Recalled; len(got) != 3 {
					t.Errorf("recalled %v, want 3", got)
				}
				callOf(t, e, allocation.ReserveRequest{Holder: "r1", Returned: v})
				if err := <-done; err != nil {
					t.Errorf("after the return: %v", err)
				}
			})
		})
	}
}

// TestLapsedReserves finds the reserves that were not renewed. A renewal by another process on the
// same store counts.
func TestLapsedReserves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := openStore(t)
		e, _ := openEngine(t, st)
		createPool(t, e, ips)
		reserveOf(t, e, "r1", 1)
		reserveOf(t, e, "r2", 1)
		other, _ := openEngine(t, st)
		time.Sleep(allocation.Lease - time.Millisecond)
		if got, err := e.Lapsed(t.Context()); err != nil || len(got) != 0 {
			t.Errorf("lapsed %v, %v before the time", got, err)
		}
		callOf(t, other, allocation.ReserveRequest{Holder: "r2"})
		time.Sleep(time.Millisecond)
		if got, err := e.Lapsed(t.Context()); err != nil || len(got) != 1 || got[0] != "r1" {
			t.Errorf("lapsed %v, %v; want r1", got, err)
		}
	})
}
