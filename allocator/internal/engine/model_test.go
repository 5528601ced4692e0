package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	allocatorv1 "portolan.dev/api/allocator/v1"
	"portolan.dev/services/kit/kittest"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/internal/sqlite"
	"portolan.dev/allocator/store"
)

// flakyStore is a store that can be made to fail, before or after it has executed a call.
type flakyStore struct {
	store.Store
	before, after int // number of calls to fail
}

var errFlaky = errors.New("disk on fire")

func (f *flakyStore) Apply(ctx context.Context, puts []store.Write) error {
	if f.before > 0 {
		f.before--
		return errFlaky
	}
	if err := f.Store.Apply(ctx, puts); err != nil {
		return err
	}
	if f.after > 0 {
		f.after--
		return errFlaky
	}
	return nil
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
		lines = append(lines, fmt.Sprint(p.Name, " ", p.Range, " ", p.State, p.Used, p.Resting))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestBookAndStoreAgree drives an engine at random, also with a failing store, and compares it with
// an engine that was read anew from the store.
func TestBookAndStoreAgree(t *testing.T) {
	runs := 0
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		st, err := sqlite.Open(t.Context(), filepath.Join(dir, fmt.Sprint(runs), "a.db"))
		if err != nil {
			rt.Fatal(err)
		}
		defer st.Close()
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		broken := &flakyStore{Store: st}
		open := func(s store.Store) *Engine {
			e, err := New(t.Context(), Config{
				Store: s, Log: kittest.Logger(t), Metrics: prometheus.NewRegistry(), Rest: time.Minute, Now: func() time.Time { return now },
			})
			if err != nil {
				rt.Fatal(err)
			}
			return e
		}
		e := open(broken)
		defer e.Close()
		for name, text := range map[string]string{"ports": "30000-30007", "more": "30010-30012"} {
			if _, err := e.CreatePool(t.Context(), store.Pool{Name: name, Use: allocatorv1.Use_USE_NODE_PORT, Range: text}); err != nil {
				rt.Fatal(err)
			}
		}
		uid := rapid.SampledFrom([]string{"a", "b", "c"})
		slot := rapid.SampledFrom([]string{"x", "y", "z"})
		value := rapid.SampledFrom([]string{"", "", "30001", "30002", "30011", "99"})
		rt.Repeat(map[string]func(*rapid.T){
			"allocate": func(rt *rapid.T) {
				set := Set{Owner: store.Owner{UID: uid.Draw(rt, "uid"), Kind: "Service"}}
				for _, s := range rapid.SliceOfNDistinct(slot, 1, 3, rapid.ID).Draw(rt, "slots") {
					set.Requests = append(set.Requests, allocation.ClaimRequest{Slot: s, Use: allocatorv1.Use_USE_NODE_PORT, Value: value.Draw(rt, "value")})
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
			"forget":       func(rt *rapid.T) { tolerate(rt, e.DeleteExpired(t.Context())) },
			"wait":         func(rt *rapid.T) { now = now.Add(25 * time.Second) },
			"break before": func(rt *rapid.T) { broken.before = 1 },
			"break after":  func(rt *rapid.T) { broken.after = 1 },
			"": func(rt *rapid.T) {
				if isStale(e) {
					return // it reads the store before its next action
				}
				fresh := open(st)
				defer fresh.Close()
				if got, want := describe(e), describe(fresh); got != want {
					rt.Fatalf("in memory:\n%s\n\nin the store:\n%s", got, want)
				}
			},
		})
	})
}

func isStale(e *Engine) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.outdated
}

func tolerate(rt *rapid.T, err error) {
	if err != nil && !strings.Contains(err.Error(), "not available") {
		rt.Fatal(err)
	}
}

// checkAllocate allocates and checks the properties that hold for any result.
func checkAllocate(rt *rapid.T, e *Engine, set Set, dry bool) {
	before, stale := describe(e), isStale(e)
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
		if want := set.Requests[i].Value; want != "" && g.Value.String() != want {
			rt.Fatalf("got %s, want %s", g.Value, want)
		}
		if !dry && !e.Owns(set.Owner.UID, g.Value) {
			rt.Fatalf("got %s, but do not have it", g.Value)
		}
	}
	if after := describe(e); (dry || len(failures) > 0) && after != before && !stale {
		rt.Fatalf("nothing should have changed:\n%s\n\n%s", before, after)
	}
}
