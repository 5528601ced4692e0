package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"portolan.dev/registry/store"
	"portolan.dev/services/object"
)

// testOutcomes tests every outcome of a write, one after the other on one object.
func testOutcomes(t *testing.T, place Location) {
	s := open(t, place)
	for _, step := range []struct {
		what string
		op   store.Op
		want string // the error, as describe returns it
		next uint64 // the revision, if there is no error
	}{
		{"update of nothing", update("a", "1", 0, "x"), "not found", 0},
		{"deletion of nothing", remove("a", "", 0), "not found", 0},
		{"create", create("a", "1", "one"), "", 1},
		{"create again", create("a", "2", "two"), "exists", 0},
		{"update based on the present", update("a", "1", 1, "two"), "", 2},
		{"update based on the past", update("a", "1", 1, "three"), "conflict", 0},
		{"update based on the future", update("a", "1", 3, "three"), "conflict", 0},
		{"unconditional update", update("a", "1", 0, "three"), "", 3},
		{"update of another incarnation", update("a", "2", 0, "four"), "conflict", 0},
		{"update of another incarnation, right revision", update("a", "2", 3, "four"), "conflict", 0},
		{"the same name elsewhere", createKey(object.Key{Kind: "Service", Namespace: "other", Name: "a"}), "", 4},
		{"the same name of another kind", createKey(object.Key{Kind: "Node", Name: "a"}), "", 5},
		{"deletion based on the past", remove("a", "", 2), "conflict", 0},
		{"deletion of another incarnation", remove("a", "2", 3), "conflict", 0},
		{"deletion", remove("a", "1", 3), "", 6},
		{"deletion again", remove("a", "1", 3), "not found", 0},
		{"update of the deleted", update("a", "1", 0, "five"), "not found", 0},
		{"create anew", create("a", "5", "six"), "", 7},
		{"unconditional deletion", remove("a", "", 0), "", 8},
	} {
		result, err := s.Submit(t.Context(), step.op)
		if got := describe(err); got != step.want || result.Revision != step.next {
			t.Errorf("%s: got revision %d, %q; want %d, %q", step.what, result.Revision, got, step.next, step.want)
		}
	}
	if _, err := CheckInvariants(t.Context(), s); err != nil {
		t.Error(err)
	}
}

func createKey(k object.Key) store.Op {
	return store.Op{Action: store.Create, Key: k, UID: "uid of " + k.String(), Data: []byte("x")}
}

func testInvalidOps(t *testing.T, place Location) {
	s := open(t, place)
	for what, op := range map[string]store.Op{
		"no action":         {Key: key("a"), UID: "1", Data: []byte("x")},
		"no name":           {Action: store.Create, Key: object.Key{Kind: "Service"}, UID: "1", Data: []byte("x")},
		"no kind":           {Action: store.Delete, Key: object.Key{Name: "a"}},
		"no uid":            create("a", "", "x"),
		"no object":         create("a", "1", ""),
		"create based on":   {Action: store.Create, Key: key("a"), UID: "1", Data: []byte("x"), Revision: 1},
		"name too long":     create(strings.Repeat("n", 2000), "1", "x"),
		"name with a zero":  create("a\x00", "1", "x"),
		"name not UTF-8":    create("a\xff", "1", "x"),
		"trace with a zero": {Action: store.Create, Key: key("a"), UID: "1", Data: []byte("x"), Traceparent: "\x00"},
		"delete of any uid": {Action: store.Delete, Key: key("a"), Revision: 1, Data: []byte("x")},
		"delete of any one": {Action: store.Delete, Key: key("a"), UID: "1", Data: []byte("x")},
		"epoch with a zero": {Action: store.Create, Key: key("a"), UID: "1", Data: []byte("x"), LogEpoch: "\x00"},
		"lease not UTF-8":   {Action: store.Create, Key: key("a"), UID: "1", Data: []byte("x"), Fence: &store.Fence{Lease: key("\xff")}},
	} {
		_, err := s.Submit(t.Context(), op)
		if _, ok := errors.AsType[*store.InvalidOp](err); !ok {
			t.Errorf("%s: %v, want InvalidOp", what, err)
		}
	}
	if h := head(t, s); h.Revision != 0 {
		t.Errorf("they left %+v", h)
	}
}

// testContents stores unusual content and checks that it is read unchanged.
func testContents(t *testing.T, place Location) {
	s := open(t, place)
	everyByte := make([]byte, 0, 1024)
	for i := range 1024 {
		everyByte = append(everyByte, byte(i))
	}
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	ops := []store.Op{
		{Action: store.Create, Key: object.Key{Kind: "Service", Namespace: "nämespace", Name: `quote'"\%_;--`}, UID: "it's", Data: everyByte, Traceparent: trace},
		{Action: store.Create, Key: object.Key{Kind: "Node", Name: strings.Repeat("n", 253)}, UID: "2", Data: bytes.Repeat(everyByte, 3<<10), Epoch: 1 << 62},
		{Action: store.Create, Key: object.Key{Kind: "Node", Name: "{array,NULL}"}, UID: "NULL", Data: []byte{0}},
	}
	for i, op := range ops {
		if got := must(t, s, op); got != uint64(i+1) {
			t.Errorf("revision %d, want %d", got, i+1)
		}
	}
	state, err := CheckInvariants(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for i, op := range ops {
		row, record := state.Rows[op.Key], state.Log[i]
		if row.UID != op.UID || row.Epoch != op.Epoch || !bytes.Equal(row.Data, op.Data) || row.Revision != uint64(i+1) {
			t.Errorf("%s came back otherwise", op.Key)
		}
		if record.Traceparent != op.Traceparent || record.Key != op.Key || record.UID != op.UID {
			t.Errorf("the record of %s is %+v", op.Key, record)
		}
	}
}

// testFencing passes a lease from one holder to the next.
func testFencing(t *testing.T, place Location) {
	s := open(t, place)
	lease := object.Key{Kind: "Lease", Namespace: "default", Name: "leader"}
	write := func(action store.Action, epoch uint64) store.Op {
		return store.Op{Action: action, Key: lease, UID: "lease", Epoch: epoch, Data: fmt.Appendf(nil, "epoch %d", epoch)}
	}
	fenced := func(epoch uint64) error {
		op := create("a", "1", "x")
		op.Fence = &store.Fence{Lease: lease, Epoch: epoch}
		_, err := s.Submit(t.Context(), op)
		if err == nil {
			must(t, s, remove("a", "1", 0))
		}
		return err
	}
	expect := func(what string, err error, have uint64) {
		t.Helper()
		refusal, ok := errors.AsType[*store.Fenced](err)
		if !ok || refusal.Have != have || refusal.Fence.Lease != lease {
			t.Errorf("%s: %v, want it fenced by epoch %d", what, err, have)
		}
	}
	expect("no lease", fenced(1), 0)
	expect("no lease, no epoch", fenced(0), 0)
	must(t, s, write(store.Create, 1))
	if err := fenced(1); err != nil {
		t.Errorf("the holder: %v", err)
	}
	expect("an epoch to come", fenced(2), 1)
	must(t, s, write(store.Update, 2))
	expect("the former holder", fenced(1), 2)
	if err := fenced(2); err != nil {
		t.Errorf("the new holder: %v", err)
	}
	must(t, s, store.Op{Action: store.Delete, Key: lease})
	expect("a deleted lease", fenced(2), 0)
	must(t, s, write(store.Create, 1))
	expect("the holder of the deleted lease", fenced(2), 1)

	// Within a batch, a fence sees the effect of earlier operations.
	last := create("b", "1", "x")
	last.Fence = &store.Fence{Lease: lease, Epoch: 2}
	first := create("c", "1", "x")
	first.Fence = &store.Fence{Lease: lease, Epoch: 1}
	late := create("d", "1", "x")
	late.Fence = first.Fence
	outcomes := s.Commit(t.Context(), []store.Op{first, write(store.Update, 2), last, late})
	for i, want := range []string{"", "", "", "fenced"} {
		if got := describe(outcomes[i].Err); got != want {
			t.Errorf("operation %d: %q, want %q", i, got, want)
		}
	}
}

// testConcurrentWriters lets many writers write, on several replicas if possible, and compares the
// store with the outcomes that they got.
func testConcurrentWriters(t *testing.T, place Location) {
	all := replicas(t, place, 3)
	ledger := &Ledger{}
	var wg sync.WaitGroup
	for i, s := range all {
		var written atomic.Int64
		wg.Go(func() {
			Load(t.Context(), s, fmt.Sprint("replica", i), 64/len(all), ledger, func(e Entry) bool {
				if e.Err != nil {
					t.Errorf("%s of %s: %v", e.Action, e.Key, e.Err)
				}
				return written.Add(1) >= 1200
			})
		})
	}
	wg.Wait()
	for _, s := range all {
		state, err := CheckInvariants(t.Context(), s)
		if err := errors.Join(err, ledger.Verify(state, true)); err != nil {
			t.Error(err)
		}
	}
}

// testRaces lets many writers attempt a write of which only one can succeed.
func testRaces(t *testing.T, place Location) {
	all := replicas(t, place, 2)
	race := func(what string, loser string, op func(i int) store.Op) {
		const racers = 64
		var won atomic.Int64
		var wg sync.WaitGroup
		for i := range racers {
			wg.Go(func() {
				_, err := all[i%len(all)].Submit(t.Context(), op(i))
				switch got := describe(err); got {
				case "":
					won.Add(1)
				case loser:
				default:
					t.Errorf("%s: %q", what, got)
				}
			})
		}
		wg.Wait()
		if got := won.Load(); got != 1 {
			t.Errorf("%s: %d won", what, got)
		}
	}
	for round := range 5 {
		name := fmt.Sprint("o", round)
		race("create", "exists", func(i int) store.Op { return create(name, fmt.Sprint("uid", i), fmt.Sprint("create", i)) })
		_, rows, err := ReadSnapshot(t.Context(), all[0])
		if err != nil {
			t.Fatal(err)
		}
		row := rows[key(name)]
		race("update", "conflict", func(i int) store.Op { return update(name, row.UID, row.Revision, fmt.Sprint("update", i)) })
		race("delete", "not found", func(int) store.Op { return remove(name, row.UID, 0) })
	}
	if _, err := CheckInvariants(t.Context(), all[0]); err != nil {
		t.Error(err)
	}
}

// testCancellation cancels requests at any moment. A write reported as cancelled must not have been
// committed.
func testCancellation(t *testing.T, place Location) {
	s := open(t, place)
	dead, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Submit(dead, create("dead", "1", "x")); !errors.Is(err, context.Canceled) {
		t.Errorf("a dead context: %v", err)
	}
	ledger := &Ledger{}
	var wg sync.WaitGroup
	for i := range 400 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			if i%2 == 0 {
				go cancel()
			}
			defer cancel()
			name := fmt.Sprint("o", i)
			op := create(name, "uid", "data of "+name)
			result, err := s.Submit(ctx, op)
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", name, err)
			}
			ledger.Add(Entry{Action: op.Action, Key: op.Key, UID: op.UID, Data: op.Data, Revision: result.Revision, Err: err})
		})
	}
	wg.Wait()
	state, err := CheckInvariants(t.Context(), s)
	if err := errors.Join(err, ledger.Verify(state, true)); err != nil {
		t.Error(err)
	}
}
