package storetest

import (
	"errors"
	"iter"
	"testing"
	"time"

	"portolan.dev/allocator/store"
)

// nothing is a decision that stores nothing.
func nothing(store.News) (store.Batch, error) { return store.Batch{}, nil }

func testPositions(t *testing.T, s store.Store) {
	prepare(t, s)
	before := position(t, s)
	after, err := s.Transact(t.Context(), before, func(n store.News) (store.Batch, error) {
		if n.Position != before || n.PoolsChanged || len(n.Allocations)+len(n.Free)+len(n.Reserves) > 0 {
			t.Errorf("nobody has changed anything, and the news is %+v", n)
		}
		return store.Batch{Writes: []store.Write{allocate(v1, a)}}, nil
	})
	if err != nil || after == before || after != position(t, s) {
		t.Errorf("%v became %v, %v; the snapshot is at %v", before, after, err, position(t, s))
	}
	if same, err := s.Transact(t.Context(), after, nothing); err != nil || same != after {
		t.Errorf("nothing was stored at %v: %v, %v", after, same, err)
	}
	for name, seen := range map[string]store.Position{
		"no position": {}, "a later position": {Version: after.Version + 5, Mark: after.Mark}, "another mark": {Version: after.Version, Mark: after.Mark + 1},
	} {
		decided := func(store.News) (store.Batch, error) {
			t.Errorf("%s: decided", name)
			return store.Batch{}, nil
		}
		if _, err := s.Transact(t.Context(), seen, decided); !isUnknown(err) {
			t.Errorf("%s: Transact returned %v", name, err)
		}
		if _, err := s.News(t.Context(), seen); !isUnknown(err) {
			t.Errorf("%s: News returned %v", name, err)
		}
	}
	if n, err := s.News(t.Context(), after); err != nil || n.Position != after {
		t.Errorf("the news at the present position: %+v, %v", n, err)
	}
}

// isUnknown reports whether an error means that the store does not know a position.
func isUnknown(err error) bool {
	return errors.Is(err, store.ErrOutdated) || errors.Is(err, store.ErrWentBack)
}

// content returns a snapshot that is not of a store.
func content(pools []store.Pool, broken error, allocations ...store.Allocation) store.Snapshot {
	return store.Snapshot{Pools: pools, Allocations: iter.Seq2[store.Allocation, error](func(yield func(store.Allocation, error) bool) {
		for _, h := range allocations {
			if !yield(h, nil) {
				return
			}
		}
		if broken != nil {
			yield(store.Allocation{}, broken)
		}
	})}
}

func testRestore(t *testing.T, s store.Store) {
	prepare(t, s)
	apply(t, s, allocate(v2, b, claim("old", true, t0)))
	applyReserves(t, s, reserve("r", 1, t0))
	pools := []store.Pool{ports("other")}
	held := store.Allocation{Value: v1, Pool: "other", Owner: a, Claims: []store.Claim{claim("x", true, t0)}}
	resting := store.Allocation{Value: v2, Pool: "other", Owner: b, Released: t0.Add(time.Second)}

	first := position(t, s)
	spoilt := errors.New("spoilt")
	if err := s.Restore(t.Context(), first, content(pools, spoilt, held)); !errors.Is(err, spoilt) {
		t.Errorf("content that cannot be read: %v", err)
	}
	want(t, s, "30002 ports b old=true+0")
	apply(t, s, keep(v2, b))
	if err := s.Restore(t.Context(), first, content(pools, nil, held)); !errors.Is(err, store.ErrOutdated) {
		t.Errorf("a store that has changed was replaced: %v", err)
	}
	want(t, s, "30002 ports b")

	before := position(t, s)
	if err := s.Restore(t.Context(), before, content(pools, nil, held, resting)); err != nil {
		t.Fatal(err)
	}
	want(t, s, "30001 other a x=true+0", "30002 other b released+1000")
	wantPools(t, s, pools...)
	wantReserves(t, s)
	if _, err := s.News(t.Context(), before); !isUnknown(err) {
		t.Errorf("a position before the restore: %v", err)
	}
	taken := allocate(v2, a)
	taken.Pool = "other"
	apply(t, s, taken)
	want(t, s, "30001 other a x=true+0", "30002 other a")
}
