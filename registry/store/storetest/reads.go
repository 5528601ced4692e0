package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"

	"portolan.dev/registry/store"
	"portolan.dev/services/object"
)

// testSnapshots takes snapshots during concurrent writes. Each must equal the replayed log up to
// its revision.
func testSnapshots(t *testing.T, place Location) {
	all := replicas(t, place, 2)
	writer, reader := all[0], all[len(all)-1]
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		Load(t.Context(), writer, "w", 8, &Ledger{}, func(e Entry) bool {
			if e.Err != nil {
				t.Errorf("%s of %s: %v", e.Action, e.Key, e.Err)
			}
			select {
			case <-done:
				return true
			default:
				return e.Err != nil
			}
		})
	})
	type snapshot struct {
		head store.Head
		rows map[object.Key]store.Row
	}
	var taken []snapshot
	for range 10 {
		wake := reader.Wake()
		h, rows, err := ReadSnapshot(t.Context(), reader)
		if err != nil {
			t.Error(err)
			break
		}
		taken = append(taken, snapshot{h, rows})
		if err := waitFor(t.Context(), wake); err != nil {
			t.Errorf("nothing moved: %v", err)
			break
		}
	}
	close(done)
	wg.Wait()
	state, err := CheckInvariants(t.Context(), reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, shot := range taken {
		past := State{Head: shot.head, Rows: shot.rows, Log: state.Log[:shot.head.Revision]}
		if err := checkLog(past); err != nil {
			t.Errorf("the snapshot at %d: %v", shot.head.Revision, err)
		}
	}
}

// testSnapshotIsConsistent writes after the head of a snapshot was read and before its rows are.
func testSnapshotIsConsistent(t *testing.T, place Location) {
	s := open(t, place)
	at := fill(t, s, "o", 3)
	err := s.Snapshot(t.Context(), func(h store.Head, rows iter.Seq2[store.Row, error]) error {
		must(t, s, create("late", "uid", "x"))
		must(t, s, remove("o1", "", 0))
		n := 0
		for row, err := range rows {
			if err != nil {
				return err
			}
			if n++; row.Revision > h.Revision {
				t.Errorf("%s of revision %d is in the snapshot of revision %d", row.Key, row.Revision, h.Revision)
			}
		}
		if h.Revision != at || n != 3 {
			t.Errorf("%d objects at revision %d, want 3 at %d", n, h.Revision, at)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func testSnapshotEnds(t *testing.T, place Location) {
	s := open(t, place)
	fill(t, s, "o", 5)
	stop := errors.New("enough")
	err := s.Snapshot(t.Context(), func(_ store.Head, rows iter.Seq2[store.Row, error]) error {
		for range rows {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) {
		t.Errorf("the error of the reader came back as %v", err)
	}
	if err := s.Snapshot(t.Context(), func(store.Head, iter.Seq2[store.Row, error]) error { return nil }); err != nil {
		t.Errorf("a reader who reads nothing: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = s.Snapshot(ctx, func(_ store.Head, rows iter.Seq2[store.Row, error]) error {
		cancel()
		var err error
		for _, rowErr := range rows {
			err = errors.Join(err, rowErr)
		}
		return errors.Join(err, ctx.Err())
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled reader: %v", err)
	}
	if _, err := CheckInvariants(t.Context(), s); err != nil {
		t.Error(err)
	}
}

// testFollowers follows the log on every replica while all of them write.
func testFollowers(t *testing.T, place Location) {
	all := replicas(t, place, 2)
	const each = 300
	var wg sync.WaitGroup
	for i, s := range all {
		wg.Go(func() { follow(t, s, uint64(each*len(all))) })
		for writer := range 6 {
			wg.Go(func() { fillConcurrently(t, s, fmt.Sprintf("r%d-w%d-", i, writer), each/6) })
		}
	}
	wg.Wait()
}

// fillConcurrently is fill for other goroutines than the test's.
func fillConcurrently(t *testing.T, s store.Store, prefix string, n int) {
	for i := range n {
		name := fmt.Sprint(prefix, i)
		if _, err := s.Submit(t.Context(), create(name, "uid", "data of "+name)); err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
	}
}

// follow reads the log until a revision and checks that no revision is missing or repeated.
func follow(t *testing.T, s store.Store, until uint64) {
	for after := uint64(0); after < until; {
		wake := s.Wake()
		records, h, err := s.Changes(t.Context(), after, 7)
		if err != nil {
			t.Errorf("changes after %d: %v", after, err)
			return
		}
		for _, r := range records {
			if r.Revision != after+1 || r.Revision > h.Revision {
				t.Errorf("revision %d came after %d, the head is %d", r.Revision, after, h.Revision)
				return
			}
			after = r.Revision
		}
		if len(records) > 0 {
			continue
		}
		if err := waitFor(t.Context(), wake); err != nil {
			t.Errorf("at %d: not woken: %v", after, err)
			return
		}
	}
}

// testTail follows the log as a view does, with Tail if it returns records and Changes otherwise,
// and compares the result with the log.
func testTail(t *testing.T, place Location) {
	all := replicas(t, place, 2)
	const each = 300
	until := uint64(each*len(all)) + 2
	found := make([][]store.Record, len(all))
	var writers, followers sync.WaitGroup
	for i, s := range all {
		followers.Go(func() { found[i] = followByTail(t, s, until) })
		for writer := range 6 {
			writers.Go(func() { fillConcurrently(t, s, fmt.Sprintf("r%d-w%d-", i, writer), each/6) })
		}
	}
	writers.Wait()
	must(t, all[0], remove("r0-w0-0", "", 0)) // only the store has the data of the deleted object
	must(t, all[len(all)-1], create("last", "uid", "x"))
	followers.Wait()
	want, _, err := all[0].Changes(t.Context(), 0, int(until))
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		if !slices.EqualFunc(found[i], want, sameRecord) {
			t.Errorf("replica %d followed something else than the log", i)
		}
	}
}

func sameRecord(a, b store.Record) bool {
	return a.Revision == b.Revision && a.Type == b.Type && a.Key == b.Key && a.UID == b.UID && bytes.Equal(a.Data, b.Data) &&
		a.Time.Equal(b.Time) && a.Traceparent == b.Traceparent
}

// followByTail returns the log until a revision. When it has reached the head, it waits, and must
// then be woken for the next change.
func followByTail(t *testing.T, s store.Store, until uint64) (found []store.Record) {
	for after := uint64(0); after < until; {
		wake := s.Wake()
		records, h := s.Tail("", after, 7)
		var err error
		if len(records) == 0 {
			records, h, err = s.Changes(t.Context(), after, 7)
		}
		if err == nil && len(records) > 0 {
			found = append(found, records...)
			after = records[len(records)-1].Revision
		}
		if err == nil && after >= h.Revision && after < until {
			err = waitFor(t.Context(), wake)
		}
		if err != nil {
			t.Errorf("at %d: %v", after, err)
			return found
		}
	}
	return found
}

// testDeletionWithData deletes a version. The caller passes the data of the version.
func testDeletionWithData(t *testing.T, place Location) {
	s := open(t, place)
	created := must(t, s, create("a", "uid", "data of a"))
	deletion := remove("a", "uid", created+1)
	deletion.Data = []byte("data of a")
	if _, err := s.Submit(t.Context(), deletion); err == nil {
		t.Error("another version was deleted")
	}
	deletion.Revision = created
	deleted := must(t, s, deletion)
	found, h := s.Tail("", created, 9)
	logged, _, err := s.Changes(t.Context(), created, 9)
	if err != nil || !slices.EqualFunc(found, logged, sameRecord) || len(logged) != 1 || h.Revision != deleted {
		t.Errorf("the tail has %+v at %+v, the log %+v, %v", found, h, logged, err)
	}
	if _, err := CheckInvariants(t.Context(), s); err != nil {
		t.Error(err)
	}
}

// testTailIsOfOneLog calls Tail for changes that were committed before the log was replaced.
func testTailIsOfOneLog(t *testing.T, place Location) {
	s := open(t, place)
	fill(t, s, "o", 5)
	before := head(t, s)
	if records, _ := s.Tail("another", 0, 9); len(records) > 0 {
		t.Errorf("another epoch has %s", revisions(records))
	}
	if _, err := s.NewEpoch(t.Context()); err != nil {
		t.Fatal(err)
	}
	if records, _ := s.Tail(before.Epoch, 0, 9); len(records) > 0 {
		t.Errorf("the former epoch has %s", revisions(records))
	}
	fill(t, s, "p", 2)
	if err := s.Restore(t.Context(), 7, 9, rowsOf(nil)); err != nil {
		t.Fatal(err)
	}
	if records, _ := s.Tail("", 5, 9); len(records) > 0 {
		t.Errorf("a restored store has %s", revisions(records))
	}
}

func testChanges(t *testing.T, place Location) {
	s := open(t, place)
	if records, h, err := s.Changes(t.Context(), 0, 10); err != nil || len(records) != 0 || h.Revision != 0 || h.Oldest != 0 || h.Epoch == "" {
		t.Errorf("an empty store: %d records, %+v, %v", len(records), h, err)
	}
	fill(t, s, "o", 10)
	for _, test := range []struct {
		after uint64
		limit int
		want  string
	}{
		{0, 100, "[1 2 3 4 5 6 7 8 9 10]"},
		{0, 3, "[1 2 3]"},
		{7, 2, "[8 9]"},
		{9, 5, "[10]"},
		{10, 5, "[]"},
		{11, 5, "[]"},
		{1 << 60, 5, "[]"},
	} {
		records, h, err := s.Changes(t.Context(), test.after, test.limit)
		if err != nil || h != head(t, s) {
			t.Errorf("after %d: %+v, %v", test.after, h, err)
		}
		if got := revisions(records); got != test.want {
			t.Errorf("%d after %d: %s, want %s", test.limit, test.after, got, test.want)
		}
	}
}

func revisions(records []store.Record) string {
	all := make([]uint64, len(records))
	for i, r := range records {
		all[i] = r.Revision
	}
	return fmt.Sprint(all)
}
