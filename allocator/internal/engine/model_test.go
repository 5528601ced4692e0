package engine

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/kittest"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/internal/postgres"
	"portolan.dev/allocator/internal/sqlite"
	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// flakyStore is a store that can be made to fail, before or after it has executed a call.
type flakyStore struct {
	store.Store
	before, after int // number of calls to fail
}

var errFlaky = errors.New("disk on fire")

func (f *flakyStore) Transact(ctx context.Context, seen store.Position, decide func(store.News) (store.Batch, error)) (store.Position, error) {
	at, err := f.Store.Transact(ctx, seen, func(n store.News) (store.Batch, error) {
		b, err := decide(n)
		if f.before > 0 && !b.Empty() && err == nil {
			f.before--
			return store.Batch{}, errFlaky
		}
		return b, err
	})
	if err == nil && f.after > 0 && at != seen {
		f.after--
		return at, errFlaky
	}
	return at, err
}

// describe returns the state of an engine as text, for comparisons.
func describe(e *Engine) string {
	var lines []string
	for _, h := range e.Allocations() {
		slices.SortFunc(h.Claims, func(a, b store.Claim) int { return strings.Compare(a.Slot, b.Slot) })
		line := fmt.Sprint(h.Pool, " ", h.Value, " ", h.Owner, h.Use)
		for _, c := range h.Claims {
			line += fmt.Sprint(" ", c.Slot, c.Confirmed, c.Since.UnixMilli())
		}
		lines = append(lines, line)
	}
	for _, p := range e.Pools() {
		lines = append(lines, fmt.Sprint(p.Name, " ", p.Range, " ", p.State, p.Used, p.StaticUsed, p.Resting, p.Reserved))
	}
	for _, r := range e.Reserves() {
		lines = append(lines, fmt.Sprint(r.Holder, " ", r.Grant, " ", r.Renewed.UnixMilli()))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestBookAndStoreAgree drives an engine on the embedded store.
func TestBookAndStoreAgree(t *testing.T) {
	dir, runs := t.TempDir(), 0
	checkModel(t, 1, func(rt *rapid.T) func() store.Store {
		runs++
		st, err := sqlite.Open(t.Context(), filepath.Join(dir, fmt.Sprint(runs), "a.db"))
		if err != nil {
			rt.Fatal(err)
		}
		rt.Cleanup(func() { _ = st.Close() })
		return func() store.Store { return st }
	})
}

// TestBooksOfTwoProcessesAgree drives two engines on one Postgres.
func TestBooksOfTwoProcessesAgree(t *testing.T) {
	dsn := kittest.Postgres(t)
	lessRuns(t, "6") // each step takes some round trips
	checkModel(t, 2, func(rt *rapid.T) func() store.Store {
		emptyPostgres(rt, t.Context(), dsn)
		return func() store.Store {
			st, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn, Log: kittest.Logger(t)})
			if err != nil {
				rt.Fatal(err)
			}
			rt.Cleanup(func() { _ = st.Close() })
			return st
		}
	})
}

// lessRuns sets the number of random runs of this test.
func lessRuns(t *testing.T, number string) {
	t.Helper()
	const name = "rapid.checks"
	before := flag.Lookup(name).Value.String()
	if err := flag.Set(name, number); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := flag.Set(name, before); err != nil {
			t.Error(err)
		}
	})
}

// emptyPostgres empties the store in a database.
func emptyPostgres(t rapid.TB, ctx context.Context, dsn string) {
	t.Helper()
	st, err := postgres.Open(ctx, postgres.Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	var at store.Position
	if err := st.Snapshot(ctx, func(content store.Snapshot) error {
		at = content.Position
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := st.Restore(ctx, at, store.Snapshot{Allocations: func(func(store.Allocation, error) bool) {}}); err != nil {
		t.Fatal(err)
	}
}

// replica is an engine with its store.
type replica struct {
	engine *Engine
	store  *flakyStore
}

// checkModel drives engines at random, also with failing stores, and compares each with an engine
// that was read anew from the store. place returns a function that opens the same, empty store each
// time.
func checkModel(t *testing.T, processes int, place func(rt *rapid.T) func() store.Store) {
	rapid.Check(t, func(rt *rapid.T) {
		openStore := place(rt)
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		open := func(s store.Store) *Engine {
			e, err := New(t.Context(), Config{
				Store: s, Log: kittest.Logger(t), Metrics: prometheus.NewRegistry(), Rest: time.Minute, Now: func() time.Time { return now },
			})
			if err != nil {
				rt.Fatal(err)
			}
			return e
		}
		st := openStore()
		all := make([]replica, processes)
		for i := range all {
			all[i].store = &flakyStore{Store: openStore()}
			all[i].engine = open(all[i].store)
			defer all[i].engine.Close()
		}
		e, broken := all[0].engine, all[0].store
		for name, text := range map[string]string{"ports": "30000-30007", "more": "30010-30012", "split": "30020-30022"} {
			p := store.Pool{Name: name, Use: allocatorv1.Use_USE_NODE_PORT, Range: text, Band: 2, PerProtocol: name == "split"}
			if _, err := e.CreatePool(t.Context(), p); err != nil {
				rt.Fatal(err)
			}
		}
		if _, err := e.CreatePool(t.Context(), store.Pool{Name: "ips", Use: allocatorv1.Use_USE_CLUSTER_IP, Range: "10.96.0.0/25"}); err != nil {
			rt.Fatal(err)
		}
		uid := rapid.SampledFrom([]string{"a", "b", "c"})
		slot := rapid.SampledFrom([]string{"x", "y", "z"})
		value := rapid.SampledFrom([]string{"", "", "30001", "30002", "30011", "30021", "30022", "99"})
		protocols := rapid.SliceOfNDistinct(rapid.SampledFrom(pool.Protocols()), 0, 3, rapid.ID)
		actions := map[string]func(*rapid.T){
			"allocate": func(rt *rapid.T) {
				set := Set{Owner: store.Owner{UID: uid.Draw(rt, "uid"), Kind: "Service"}}
				for _, s := range rapid.SliceOfNDistinct(slot, 1, 3, rapid.ID).Draw(rt, "slots") {
					set.Requests = append(set.Requests, allocation.ClaimRequest{
						Slot: s, Use: allocatorv1.Use_USE_NODE_PORT, Value: value.Draw(rt, "value"), Protocols: protocols.Draw(rt, "protocols"),
					})
				}
				checkAllocate(rt, e, set, rapid.IntRange(0, 3).Draw(rt, "dry") == 0)
			},
			"confirm": func(rt *rapid.T) {
				_, _, err := e.Confirm(t.Context(), []OwnerSlots{{UID: uid.Draw(rt, "uid"), Slots: rapid.SliceOfN(slot, 0, 2).Draw(rt, "slots")}})
				tolerate(rt, err)
			},
			"release": func(rt *rapid.T) {
				_, err := e.Release(t.Context(), []OwnerSlots{{UID: uid.Draw(rt, "uid"), Slots: rapid.SliceOfN(slot, 0, 2).Draw(rt, "slots")}})
				tolerate(rt, err)
			},
			"reclaim": func(rt *rapid.T) {
				held := e.Allocations()
				slices.SortFunc(held, func(a, b allocation.Allocation) int { return strings.Compare(a.Value.String(), b.Value.String()) })
				if len(held) > 0 {
					_, err := e.Reclaim(t.Context(), held[:1])
					tolerate(rt, err)
				}
			},
			"reserve": func(rt *rapid.T) {
				_, err := e.Reserve(t.Context(), drawReserve(rt, e))
				if !errors.Is(err, allocation.ErrOvertaken) {
					tolerate(rt, err)
				}
			},
			"recall": func(rt *rapid.T) {
				if v := drawReserved(rt, e); len(v) > 0 {
					checkAllocate(rt, e, Set{Owner: store.Owner{UID: "a"}, Requests: []allocation.ClaimRequest{
						{Slot: "ip", Use: allocatorv1.Use_USE_CLUSTER_IP, Value: v[0].Value.String()},
					}}, false)
				}
			},
			"release reserved": func(rt *rapid.T) {
				o := OwnerSlots{UID: uid.Draw(rt, "uid")}
				for _, v := range drawReserved(rt, e) {
					o.Values = append(o.Values, v.Value)
				}
				_, err := e.Release(t.Context(), []OwnerSlots{o})
				tolerate(rt, err)
			},
			"close": func(rt *rapid.T) {
				v := drawReserved(rt, e)
				_, err := e.CloseReserves(t.Context(), []string{holders.Draw(rt, "holder")}, func(value pool.Value) (store.Owner, string, bool) {
					has := slices.ContainsFunc(v, func(r allocation.ReservedValue) bool { return r.Value == value })
					return store.Owner{UID: "b"}, "ip/" + value.String(), has
				})
				tolerate(rt, err)
			},
			"forget":       func(rt *rapid.T) { tolerate(rt, e.DeleteExpired(t.Context())) },
			"wait":         func(rt *rapid.T) { now = now.Add(25 * time.Second) },
			"break before": func(rt *rapid.T) { broken.before = 1 },
			"break after":  func(rt *rapid.T) { broken.after = 1 },
		}
		for name, act := range actions {
			actions[name] = func(rt *rapid.T) {
				p := rapid.SampledFrom(all).Draw(rt, "process")
				e, broken = p.engine, p.store
				act(rt)
			}
		}
		actions[""] = func(rt *rapid.T) {
			fresh := open(st)
			defer fresh.Close()
			want := describe(fresh)
			for i, p := range all {
				if err := p.engine.Refresh(t.Context()); err != nil {
					rt.Fatal(err)
				}
				if got := describe(p.engine); got != want {
					rt.Fatalf("in memory of process %d:\n%s\n\nin the store:\n%s", i, got, want)
				}
			}
		}
		rt.Repeat(actions)
	})
}

var holders = rapid.SampledFrom([]string{"r1", "r2"})

// drawReserved returns some values that are in reserves.
func drawReserved(rt *rapid.T, e *Engine) []allocation.ReservedValue {
	var all []allocation.ReservedValue
	for _, h := range e.Allocations() {
		if h.Owner.Kind == store.KindReserve {
			all = append(all, allocation.ReservedValue{Value: h.Value, Grant: h.Grant})
		}
	}
	slices.SortFunc(all, func(a, b allocation.ReservedValue) int { return strings.Compare(a.Value.String(), b.Value.String()) })
	return all[:min(len(all), rapid.IntRange(0, 3).Draw(rt, "values"))]
}

// drawReserve returns a call of a holder.
func drawReserve(rt *rapid.T, e *Engine) allocation.ReserveRequest {
	req := allocation.ReserveRequest{
		Holder: holders.Draw(rt, "holder"), Begin: true, Close: rapid.IntRange(0, 5).Draw(rt, "close") == 0,
		Returned: drawReserved(rt, e), Wishes: []allocation.ReserveCount{{Family: corev1.IPFamily_IP_FAMILY_IPV4, Count: rapid.Uint64Range(0, 8).Draw(rt, "wish")}},
	}
	for _, v := range drawReserved(rt, e) {
		req.Settled = append(req.Settled, allocation.Settlement{
			ReservedValue: v, Owner: store.Owner{UID: "c", Kind: "Service"}, Slot: "ip/" + v.Value.String(), Confirmed: rapid.Bool().Draw(rt, "confirmed"),
		})
	}
	if rapid.Bool().Draw(rt, "numbered") {
		req.Call = rapid.Uint64Range(1, 9).Draw(rt, "call")
		req.Received = rapid.Uint64Range(0, req.Call).Draw(rt, "received")
	}
	return req
}

func tolerate(rt *rapid.T, err error) {
	if err != nil && !strings.Contains(err.Error(), "not available") {
		rt.Fatal(err)
	}
}

// checkAllocate allocates and checks the properties that hold for any result.
func checkAllocate(rt *rapid.T, e *Engine, set Set, dry bool) {
	if err := e.Refresh(context.Background()); err != nil {
		rt.Fatal(err)
	}
	before := describe(e)
	results, err := e.Allocate(context.Background(), []Set{set}, dry)
	if err != nil {
		tolerate(rt, err)
		return
	}
	got, failures := results[0].Results, results[0].Failures
	if (len(got) == len(set.Requests)) == (len(failures) > 0) {
		rt.Fatalf("%d values and %d failures", len(got), len(failures))
	}
	for i, g := range got {
		if want := set.Requests[i].Value; want != "" && g.Value.Without().String() != want {
			rt.Fatalf("got %s, want %s", g.Value, want)
		}
		if !dry && !e.Owns(set.Owner.UID, g.Value) {
			rt.Fatalf("got %s, but do not have it", g.Value)
		}
	}
	recalls := slices.ContainsFunc(failures, func(f allocation.Failure) bool { return f.IsAtHand() })
	if after := describe(e); !recalls && (dry || len(failures) > 0) && after != before {
		rt.Fatalf("nothing should have changed:\n%s\n\n%s", before, after)
	}
}
