package engine

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	allocatorv1 "portolan.dev/api/allocator/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/kittest"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/internal/postgres"
	"portolan.dev/allocator/store"
)

// openPostgres returns an engine on a store in a database, as a process of its own.
func openPostgres(t *testing.T, dsn string) *Engine {
	t.Helper()
	st, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn, Log: kittest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	e, _ := openEngine(t, st)
	return e
}

// anyPort is a claim of any port, and thisPort a claim of one.
func anyPort(slot string) allocation.ClaimRequest {
	return allocation.ClaimRequest{Slot: slot, Use: ports.Use}
}

func thisPort(slot, value string) allocation.ClaimRequest {
	return allocation.ClaimRequest{Slot: slot, Use: ports.Use, Value: value}
}

// tryAllocate allocates for one owner, from any goroutine.
func tryAllocate(t *testing.T, e *Engine, uid string, wants ...allocation.ClaimRequest) (SetResult, error) {
	t.Helper()
	results, err := e.Allocate(t.Context(), []Set{{Owner: store.Owner{UID: uid, Kind: "Service"}, Requests: wants}}, false)
	if err != nil {
		return SetResult{}, err
	}
	return results[0], nil
}

// TestTwoProcessesShareTheLastValues lets many clients of two processes take the last values of a
// pool. Each value is allocated once, and then the pool is full for both.
func TestTwoProcessesShareTheLastValues(t *testing.T) {
	dsn := kittest.Postgres(t)
	engines := []*Engine{openPostgres(t, dsn), openPostgres(t, dsn)}
	hundred := ports
	hundred.Range = "30000-30099"
	createPool(t, engines[0], hundred)
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		taken = map[string]string{}
		full  int
	)
	for i := range 160 {
		wg.Go(func() {
			uid := fmt.Sprint("u", i)
			r, err := tryAllocate(t, engines[i%2], uid, anyPort("p"))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Error(err)
			case len(r.Results) == 1:
				value := r.Results[0].Value.String()
				if other := taken[value]; other != "" {
					t.Errorf("%s was allocated to %s and to %s", value, other, uid)
				}
				taken[value] = uid
			case r.Failures[0].Reason == allocatorv1.FailureReason_FAILURE_REASON_FULL:
				full++
			default:
				t.Errorf("%s: %v", uid, r.Failures)
			}
		})
	}
	wg.Wait()
	if len(taken) != 100 || full != 60 {
		t.Errorf("%d values were allocated, and %d clients found the pool full; want 100 and 60", len(taken), full)
	}
}

// TestAClaimIsOneClaimForAllProcesses repeats a claim at another process, and at both at once.
func TestAClaimIsOneClaimForAllProcesses(t *testing.T) {
	dsn := kittest.Postgres(t)
	engines := []*Engine{openPostgres(t, dsn), openPostgres(t, dsn)}
	createPool(t, engines[0], ports)
	for round := range 5 {
		uid := fmt.Sprint("u", round)
		var values [4]string
		var wg sync.WaitGroup
		for i := range values {
			wg.Go(func() {
				r, err := tryAllocate(t, engines[i%2], uid, anyPort("p"))
				if err != nil || len(r.Results) != 1 {
					t.Errorf("%v, %v", r, err)
					return
				}
				values[i] = r.Results[0].Value.String()
			})
		}
		wg.Wait()
		if len(slices.Compact(values[:])) != 1 {
			t.Errorf("one slot of one owner has the values %v", values)
		}
	}
}

// TestAReleaseIsOfItsOwner repeats a release at a process that has not seen yet that another owner has the
// value now.
func TestAReleaseIsOfItsOwner(t *testing.T) {
	dsn := kittest.Postgres(t)
	first, other := openPostgres(t, dsn), openPostgres(t, dsn)
	createPool(t, first, ports)
	if r := allocate(t, first, "u1", false, thisPort("p", "30001")); len(r.Results) != 1 {
		t.Fatal(r.Failures)
	}
	if n, err := other.Release(t.Context(), []OwnerSlots{{UID: "u1"}}); err != nil || n != 1 {
		t.Fatalf("%d released, %v", n, err)
	}
	if r := allocate(t, first, "u2", false, thisPort("p", "30001")); len(r.Results) != 1 {
		t.Fatal(r.Failures)
	}
	if n, err := other.Release(t.Context(), []OwnerSlots{{UID: "u1"}}); err != nil || n != 0 {
		t.Errorf("%d released again, %v", n, err)
	}
	for i, e := range []*Engine{first, other} {
		if r := allocate(t, e, "u3", false, thisPort("p", "30001")); len(r.Failures) != 1 {
			t.Errorf("process %d gave away what u2 has", i)
		}
	}
}

// TestAPoolIsThereForAllProcesses creates, grows and retires a pool at one process.
func TestAPoolIsThereForAllProcesses(t *testing.T) {
	dsn := kittest.Postgres(t)
	first, other := openPostgres(t, dsn), openPostgres(t, dsn)
	createPool(t, first, ports)
	if r := allocate(t, other, "u1", false, anyPort("p")); len(r.Results) != 1 {
		t.Errorf("after the pool was created: %v", r.Failures)
	}
	grown := ports
	grown.Range = "30000-30019"
	if _, err := other.UpdatePool(t.Context(), grown); err != nil {
		t.Fatal(err)
	}
	if r := allocate(t, first, "u2", false, thisPort("p", "30015")); len(r.Results) != 1 {
		t.Errorf("after the pool has grown: %v", r.Failures)
	}
	retire(t, first, grown)
	if r := allocate(t, other, "u3", false, anyPort("p")); len(r.Failures) != 1 {
		t.Errorf("after the pool was retired: %v", r.Results)
	}
	if err := other.DeletePool(t.Context(), ports.Name); err == nil {
		t.Error("a pool with values in use was deleted")
	}
}

// tables of the store.
var tables = []string{"allocator_head", "allocator_batches", "allocator_pools", "allocator_allocations", "allocator_reserves"}

// backUp copies the tables of the store, and returns a function that puts the copies back.
func backUp(t *testing.T, dsn string) (restore func()) {
	t.Helper()
	admin, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close(t.Context()) })
	run := func(statements ...string) {
		t.Helper()
		err := pgx.BeginFunc(t.Context(), admin, func(tx pgx.Tx) error {
			for _, statement := range statements {
				if _, err := tx.Exec(t.Context(), statement); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var back []string
	run(`CREATE SCHEMA backup`)
	for _, table := range tables {
		run(fmt.Sprintf(`CREATE TABLE backup.%s AS TABLE allocator.%s`, table, table))
		back = append(back, `DELETE FROM allocator.`+table, fmt.Sprintf(`INSERT INTO allocator.%s SELECT * FROM backup.%s`, table, table))
	}
	return func() {
		t.Helper()
		run(back...)
	}
}

// TestAnOlderCopyIsNoticed restores an older copy of the database under running processes. Values
// that were allocated since then look free in it. No client gets one until the process has been told
// that all values in use are allocated again.
func TestAnOlderCopyIsNoticed(t *testing.T) {
	for name, movedOn := range map[string]bool{"at once": false, "after another process has gone on": true} {
		t.Run(name, func(t *testing.T) {
			dsn := kittest.Postgres(t)
			running := openPostgres(t, dsn)
			createPool(t, running, ports)
			restore := backUp(t, dsn)
			if r := allocate(t, running, "u1", false, thisPort("p", "30001")); len(r.Results) != 1 {
				t.Fatal(r.Failures)
			}
			restore()
			if movedOn {
				other := openPostgres(t, dsn)
				for i := range 5 {
					allocate(t, other, fmt.Sprint("o", i), false, thisPort("p", fmt.Sprint(30005+i)))
				}
			}
			if r, err := tryAllocate(t, running, "u2", thisPort("p", "30001")); !apierr.IsUnavailable(err) {
				t.Errorf("from a store that went back: %v, %v", r, err)
			}
			kittest.Receive(t, "a notice", running.Lost())
			losses := running.Losses()
			if _, err := running.Reserve(t.Context(), allocation.ReserveRequest{Holder: "r", Begin: true}); !apierr.IsUnavailable(err) {
				t.Errorf("a reserve was made: %v", err)
			}
			set := Set{Owner: store.Owner{UID: "u1"}, Requests: []allocation.ClaimRequest{thisPort("p", "30001")}}
			if results, err := running.Adopt(t.Context(), []Set{set}); err != nil || len(results[0].Results) != 1 {
				t.Fatalf("%v, %v", results, err)
			}
			running.Adopted(losses)
			if r := allocate(t, running, "u2", false, thisPort("p", "30001")); len(r.Failures) != 1 {
				t.Errorf("what u1 has was allocated again: %v", r.Results)
			}
			if r := allocate(t, running, "u2", false, thisPort("p", "30002")); len(r.Results) != 1 {
				t.Errorf("nothing is allocated any more: %v", r.Failures)
			}
		})
	}
}

// TestProcessesSurviveTheLossOfConnections terminates the sessions of two processes repeatedly under
// load. Every value that was reported as allocated is stored, and both processes agree with the store.
func TestProcessesSurviveTheLossOfConnections(t *testing.T) {
	dsn := kittest.Postgres(t)
	engines := []*Engine{openPostgres(t, dsn), openPostgres(t, dsn)}
	wide := ports
	wide.Range = "20000-32767"
	createPool(t, engines[0], wide)
	admin, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close(t.Context()) })
	const kills, between = 8, 60
	var (
		over     atomic.Bool
		wg       sync.WaitGroup
		mu       sync.Mutex
		owners   = map[string]string{} // of the values that were reported as allocated
		failed   int
		progress = make(chan struct{}, 1)
	)
	for client := range 16 {
		wg.Go(func() {
			for n := 0; !over.Load(); n++ {
				uid := fmt.Sprintf("u%d-%d", client, n)
				r, err := tryAllocate(t, engines[client%2], uid, anyPort("p"))
				mu.Lock()
				switch {
				case err != nil && !apierr.IsUnavailable(err):
					t.Errorf("%s: %v", uid, err)
				case err != nil:
					failed++
				default:
					owners[r.Results[0].Value.String()] = uid
				}
				mu.Unlock()
				select {
				case progress <- struct{}{}:
				default:
				}
			}
		})
	}
	defer wg.Wait()
	defer over.Store(true)
	acknowledged := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(owners)
	}
	for range kills {
		for until := acknowledged() + between; acknowledged() < until; {
			kittest.Receive(t, "an allocation", progress)
		}
		const query = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'portolan-allocator'`
		if _, err := admin.Exec(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	over.Store(true)
	wg.Wait()
	t.Logf("%d allocated, %d failed", len(owners), failed)
	fresh := openPostgres(t, dsn)
	want := describe(fresh)
	for i, e := range engines {
		if err := e.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if describe(e) != want {
			t.Errorf("process %d does not agree with the store", i)
		}
	}
	stored := map[string]string{}
	for _, h := range fresh.Allocations() {
		stored[h.Value.String()] = h.Owner.UID
	}
	for value, uid := range owners {
		if stored[value] != uid {
			t.Errorf("%s was allocated to %s and is stored for %q", value, uid, stored[value])
		}
	}
}

// TestTheServerGoesAndComesBack stops the server. Requests fail meanwhile, and succeed afterwards.
func TestTheServerGoesAndComesBack(t *testing.T) {
	cluster := kittest.NewCluster(t)
	e := openPostgres(t, cluster.Database(t))
	createPool(t, e, ports)
	before := allocate(t, e, "u", false, anyPort("p"))
	if err := cluster.Stop(); err != nil {
		t.Fatal(err)
	}
	if r, err := tryAllocate(t, e, "other", anyPort("p")); !apierr.IsUnavailable(err) {
		t.Errorf("without a server: %v, %v", r, err)
	}
	if err := cluster.Start(); err != nil {
		t.Fatal(err)
	}
	kittest.Eventually(t, "the server", func() error {
		r, err := tryAllocate(t, e, "u", anyPort("p"))
		if err != nil {
			return err
		}
		if r.Results[0].Value != before.Results[0].Value {
			return errors.New("another value: " + r.Results[0].Value.String())
		}
		return nil
	})
}
