package storetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"portolan.dev/registry/store"
	"portolan.dev/services/object"
)

func testPrune(t *testing.T, place Location) {
	s := open(t, place)
	fill(t, s, "o", 10)
	for _, step := range []struct {
		through uint64
		pruned  int64
		oldest  uint64
	}{
		{0, 0, 0}, {4, 4, 4}, {4, 0, 4}, {2, 0, 4}, {7, 3, 7}, {1 << 60, 3, 10},
	} {
		pruned, err := s.Prune(t.Context(), step.through)
		if err != nil || pruned != step.pruned {
			t.Errorf("prune through %d: %d, %v; want %d", step.through, pruned, err, step.pruned)
		}
		if h := head(t, s); h.Oldest != step.oldest || h.Revision != 10 {
			t.Errorf("prune through %d: the head is %+v", step.through, h)
		}
		if step.oldest > 0 {
			_, _, err = s.Changes(t.Context(), step.oldest-1, 5)
			if refusal, ok := errors.AsType[*store.Pruned](err); !ok || refusal.Oldest != step.oldest {
				t.Errorf("changes of what is pruned: %v", err)
			}
		}
		state, err := CheckInvariants(t.Context(), s)
		if err != nil || len(state.Rows) != 10 {
			t.Errorf("prune through %d: %d objects, %v", step.through, len(state.Rows), err)
		}
	}
	if got := fill(t, s, "after", 1); got != 11 {
		t.Errorf("the next revision is %d", got)
	}
}

// testPruneUnderReaders prunes the log under followers. Each must get all changes or an error.
func testPruneUnderReaders(t *testing.T, place Location) {
	all := replicas(t, place, 2)
	s, other := all[0], all[len(all)-1]
	const n = 300
	var wg sync.WaitGroup
	wg.Go(func() { fillConcurrently(t, s, "o", n) })
	wg.Go(func() {
		for through := uint64(0); through < n-10; {
			wake := other.Wake()
			h, err := other.Head(t.Context())
			if err == nil && h.Revision > through+10 {
				through = h.Revision - 10
				_, err = other.Prune(t.Context(), through)
			} else if err == nil {
				err = waitFor(t.Context(), wake)
			}
			if err != nil {
				t.Errorf("prune: %v", err)
				return
			}
		}
	})
	for after := uint64(0); after < n; {
		wake := s.Wake()
		records, _, err := s.Changes(t.Context(), after, 5)
		if refusal, ok := errors.AsType[*store.Pruned](err); ok && refusal.Oldest > after {
			after = refusal.Oldest
			continue
		}
		if err != nil {
			t.Fatalf("changes after %d: %v", after, err)
		}
		for _, r := range records {
			if r.Revision != after+1 {
				t.Fatalf("revision %d came after %d", r.Revision, after)
			}
			after = r.Revision
		}
		if len(records) == 0 {
			if err := waitFor(t.Context(), wake); err != nil {
				t.Fatalf("at %d: not woken: %v", after, err)
			}
		}
	}
	wg.Wait()
	if _, err := CheckInvariants(t.Context(), s); err != nil {
		t.Error(err)
	}
}

func testEpoch(t *testing.T, place Location) {
	s := open(t, place)
	fill(t, s, "o", 3)
	first := head(t, s)
	wake := s.Wake()
	second, err := s.NewEpoch(t.Context())
	if err != nil || second.Epoch == first.Epoch || second.Epoch == "" || second.Revision != 3 {
		t.Errorf("from %+v to %+v, %v", first, second, err)
	}
	if got := head(t, s); got != second {
		t.Errorf("the head is %+v, not %+v", got, second)
	}
	if err := waitFor(t.Context(), wake); err != nil {
		t.Errorf("a new epoch did not wake: %v", err)
	}
}

func rowsOf(rows map[object.Key]store.Row) iter.Seq2[store.Row, error] {
	return func(yield func(store.Row, error) bool) {
		for _, key := range slices.SortedFunc(maps.Keys(rows), object.Compare) {
			if !yield(rows[key], nil) {
				return
			}
		}
	}
}

// testRestore restores the objects of one store into itself, over other objects.
func testRestore(t *testing.T, place Location) {
	s := open(t, place)
	fill(t, s, "kept", 600)
	lease := store.Op{Action: store.Create, Key: object.Key{Kind: "Lease", Name: "l"}, UID: "l", Data: []byte("x"), Epoch: 7}
	must(t, s, lease)
	must(t, s, remove("kept0", "", 0))
	backup, rows, err := ReadSnapshot(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	at := fill(t, s, "lost", 3)
	if err := s.Restore(t.Context(), at, backup.Revision, rowsOf(rows)); err != nil {
		t.Fatal(err)
	}
	state, err := CheckInvariants(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if state.Head.Epoch == backup.Epoch || state.Head.Revision != at || state.Head.Oldest != at {
		t.Errorf("the head is %+v after a restore at %d", state.Head, at)
	}
	if !maps.EqualFunc(state.Rows, rows, func(a, b store.Row) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
		t.Errorf("%d objects were restored from %d, or other ones", len(state.Rows), len(rows))
	}
	if err := s.Restore(t.Context(), at, at+100, rowsOf(rows)); err != nil {
		t.Fatal(err)
	}
	if got := fill(t, s, "next", 1); got != at+101 {
		t.Errorf("the revision after a restore to %d is %d", at+100, got)
	}
}

func testRestoreRefused(t *testing.T, place Location) {
	s := open(t, place)
	at := fill(t, s, "o", 3)
	before := head(t, s)
	row := store.Row{Key: key("new"), UID: "1", Revision: 2, Data: []byte("x")}
	broken := errors.New("broken")
	for what, try := range map[string]struct {
		at   uint64
		rows iter.Seq2[store.Row, error]
	}{
		"the head moved":    {at - 1, rowsOf(map[object.Key]store.Row{row.Key: row})},
		"the stream broke":  {at, func(yield func(store.Row, error) bool) { _ = yield(row, nil) && yield(store.Row{}, broken) }},
		"revision too high": {at, rowsOf(map[object.Key]store.Row{row.Key: {Key: row.Key, UID: "1", Revision: 11, Data: []byte("x")}})},
		"no object":         {at, rowsOf(map[object.Key]store.Row{row.Key: {Key: row.Key, UID: "1", Revision: 1}})},
		"the same twice":    {at, func(yield func(store.Row, error) bool) { _ = yield(row, nil) && yield(row, nil) }},
	} {
		err := s.Restore(t.Context(), try.at, 10, try.rows)
		if err == nil {
			t.Errorf("%s: accepted", what)
		}
		if _, ok := errors.AsType[*store.ConflictError](err); ok != (try.at != at) {
			t.Errorf("%s: %v", what, err)
		}
		if what == "the stream broke" && !errors.Is(err, broken) {
			t.Errorf("%s: %v", what, err)
		}
	}
	state, err := CheckInvariants(t.Context(), s)
	if err != nil || state.Head != before || len(state.Rows) != 3 {
		t.Errorf("they left %+v with %d objects, %v", state.Head, len(state.Rows), err)
	}
}

// testLock lets many goroutines on all replicas increment a counter that only the lock protects.
func testLock(t *testing.T, place Location) {
	all := replicas(t, place, 2)
	inside, entered := 0, 0 // the race detector checks that the lock protects them
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			err := all[i%len(all)].Lock(t.Context(), "a lock", func(context.Context) error {
				if inside++; inside != 1 {
					t.Errorf("%d are inside", inside)
				}
				entered++
				inside--
				return nil
			})
			if err != nil {
				t.Errorf("lock: %v", err)
			}
		})
	}
	wg.Wait()
	if entered != 12 {
		t.Errorf("%d entered", entered)
	}
	failed := errors.New("failed")
	err := all[0].Lock(t.Context(), "a lock", func(ctx context.Context) error {
		last := all[len(all)-1]
		if err := last.Lock(ctx, "another lock", func(context.Context) error { return nil }); err != nil {
			t.Errorf("a lock of another name: %v", err)
		}
		waiting, cancel := context.WithCancel(ctx)
		cancel()
		err := last.Lock(waiting, "a lock", func(context.Context) error { t.Error("two are inside"); return nil })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("who stopped waiting: %v", err)
		}
		return failed
	})
	if !errors.Is(err, failed) {
		t.Errorf("the error from inside came back as %v", err)
	}
}

// testLockKeepsOthersOut checks that a second caller, on another replica if there are several, does not get
// a lock while the first caller holds it.
func testLockKeepsOthersOut(t *testing.T, place Location) {
	all := replicas(t, place, 2)
	asking, entered := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	err := all[0].Lock(t.Context(), "a lock", func(context.Context) error {
		wg.Go(func() {
			close(asking)
			err := all[len(all)-1].Lock(t.Context(), "a lock", func(context.Context) error { close(entered); return nil })
			if err != nil {
				t.Errorf("lock: %v", err)
			}
		})
		<-asking
		select {
		case <-entered:
			t.Error("two are inside")
		case <-time.After(500 * time.Millisecond): // far longer than getting the lock takes
		}
		return nil
	})
	if err != nil {
		t.Errorf("lock: %v", err)
	}
	wg.Wait()
	select {
	case <-entered:
	default:
		t.Error("who waited did not get in")
	}
}

// testCommitsWake checks that a waiter is woken before Submit returns, and not by a later poll.
func testCommitsWake(t *testing.T, place Location) {
	s := open(t, place)
	late := 0
	const commits = 20
	for i := range commits {
		wake := s.Wake()
		must(t, s, create(fmt.Sprint("o", i), fmt.Sprint("uid", i), "data"))
		select {
		case <-wake:
		default:
			late++
		}
	}
	if late > 0 {
		t.Errorf("%d of %d commits were acknowledged before they woke anybody", late, commits)
	}
}

// testReopen closes and reopens a store and checks that nothing has changed.
func testReopen(t *testing.T, place Location) {
	s := place.Open(t)
	fill(t, s, "o", 20)
	must(t, s, remove("o3", "", 0))
	if _, err := s.Prune(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	before, err := CheckInvariants(t.Context(), s)
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	again := open(t, place)
	after, err := CheckInvariants(t.Context(), again)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("before: %v\nafter: %v", before, after)
	}
	if got := fill(t, again, "p", 1); got != 22 {
		t.Errorf("the next revision is %d", got)
	}
}

// testClose closes a store that is in use. Every write must be stored or refused.
func testClose(t *testing.T, place Location) {
	s := place.Open(t)
	ledger := &Ledger{}
	begun := make(chan struct{})
	var once sync.Once
	var wg sync.WaitGroup
	wg.Go(func() {
		Load(t.Context(), s, "w", 16, ledger, func(e Entry) bool {
			once.Do(func() { close(begun) })
			if e.Err != nil && !errors.Is(e.Err, store.ErrClosed) {
				t.Errorf("%s of %s: %v", e.Action, e.Key, e.Err)
			}
			return e.Err != nil
		})
	})
	<-begun
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	wg.Wait()
	again := open(t, place)
	state, err := CheckInvariants(t.Context(), again)
	if err := errors.Join(err, ledger.Verify(state, true)); err != nil {
		t.Error(err)
	}
}

// testLogSize compares the size of the log with the sizes of its objects, before and after pruning.
func testLogSize(t *testing.T, place Location) {
	s := open(t, place)
	check := func(keep, size int64, through uint64) {
		t.Helper()
		if gotSize, gotThrough, err := s.LogSize(t.Context(), keep); err != nil || gotSize != size || gotThrough != through {
			t.Errorf("keeping %d: %d bytes, to be pruned through %d, %v; want %d and %d", keep, gotSize, gotThrough, err, size, through)
		}
	}
	check(0, 0, 0)
	for n := range 5 {
		must(t, s, create(fmt.Sprint("o", n), fmt.Sprint("o", n), strings.Repeat("x", 100)))
	}
	must(t, s, remove("o0", "", 0)) // the log has the object again
	check(600, 600, 0)
	check(599, 600, 1)
	check(250, 600, 4)
	check(0, 600, 6)
	if _, err := s.Prune(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	check(100, 200, 5)
}
