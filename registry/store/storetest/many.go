package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/store"
	"portolan.dev/services/object"
)

// testManyWrites submits many writes at once. They are one commit, in their order, each with its own
// outcome.
func testManyWrites(t *testing.T, place Location) {
	s := open(t, place)
	m := &model{rows: map[object.Key]store.Row{}}
	var ops []store.Op
	for i := range 200 {
		name := fmt.Sprint("o", i)
		// The last write of each object fails for one reason or another.
		ops = append(ops, create(name, "1", "one"), update(name, "1", 0, "two"), create(name, "2", "three"), update(name, "2", 0, "four"), remove(name, "1", 1_000_000))
	}
	invalid := create("invalid", "", "no uid")
	outcomes := s.SubmitMany(t.Context(), append(ops[:len(ops):len(ops)], invalid))
	if len(outcomes) != len(ops)+1 {
		t.Fatalf("%d outcomes of %d writes", len(outcomes), len(ops)+1)
	}
	for i, op := range ops {
		revision, failure := m.apply(op)
		if got := outcomes[i]; got.Value.Revision != revision || describe(got.Err) != failure {
			t.Fatalf("write %d, %s of %s: revision %d, %v; want %d, %q", i, op.Action, op.Key, got.Value.Revision, got.Err, revision, failure)
		}
	}
	if _, ok := errors.AsType[*store.InvalidOp](outcomes[len(ops)].Err); !ok {
		t.Errorf("the invalid write: %v", outcomes[len(ops)].Err)
	}
	state, err := CheckInvariants(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range state.Log {
		if !record.Time.Equal(state.Log[0].Time) {
			t.Fatal("there was more than one commit") // the records of a commit have one time
		}
	}
	if none := s.SubmitMany(t.Context(), nil); len(none) != 0 {
		t.Errorf("no writes have %d outcomes", len(none))
	}
}

// testManyWritesCancelled checks that writes of a cancelled caller, or after Close, are not stored.
func testManyWritesCancelled(t *testing.T, place Location) {
	s := place.Open(t)
	dead, cancel := context.WithCancel(t.Context())
	cancel()
	ops := []store.Op{create("a", "1", "x"), create("b", "1", "x")}
	for i, outcome := range s.SubmitMany(dead, ops) {
		if !errors.Is(outcome.Err, context.Canceled) {
			t.Errorf("write %d of a cancelled caller: %v", i, outcome.Err)
		}
	}
	if h := head(t, s); h.Revision != 0 {
		t.Errorf("they left %+v", h)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for i, outcome := range s.SubmitMany(t.Context(), ops) {
		if !errors.Is(outcome.Err, store.ErrClosed) {
			t.Errorf("write %d after Close: %v", i, outcome.Err)
		}
	}
}

// testManyWritesAtOnce lets several callers submit many writes to the same objects, on several
// replicas if possible, and compares the store with the outcomes that they got.
func testManyWritesAtOnce(t *testing.T, place Location) {
	all := replicas(t, place, 2)
	ledger := &Ledger{}
	var wg sync.WaitGroup
	for caller := range 4 {
		wg.Go(func() {
			s := all[caller%len(all)]
			var ops []store.Op
			for i := range 300 {
				name := fmt.Sprint("o", i)
				uid := fmt.Sprintf("%d of caller %d", i, caller)
				ops = append(ops, create(name, uid, "created by "+uid), remove(name, uid, 0))
			}
			for i, outcome := range s.SubmitMany(t.Context(), ops) {
				if got := describe(outcome.Err); got != "" && got != "exists" && got != "conflict" && got != "not found" {
					t.Errorf("%s of %s: %v", ops[i].Action, ops[i].Key, outcome.Err)
				}
				ledger.Add(Entry{Action: ops[i].Action, Key: ops[i].Key, UID: ops[i].UID, Data: ops[i].Data, Revision: outcome.Value.Revision, Err: outcome.Err})
			}
		})
	}
	wg.Wait()
	state, err := CheckInvariants(t.Context(), all[0])
	if err := errors.Join(err, ledger.Verify(state, true)); err != nil {
		t.Error(err)
	}
}

// testSharedObjects checks that followers get the objects of committed writes as they were submitted,
// with their versions, and that the objects of refused writes are not changed.
func testSharedObjects(t *testing.T, place Location) {
	s := open(t, place)
	var ops []store.Op
	for i, name := range []string{"a", "a", "b"} {
		o := &corev1.Service{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name, Uid: fmt.Sprint(i)}}
		data, err := store.Encode(o)
		if err != nil {
			t.Fatal(err)
		}
		ops = append(ops, store.Op{Action: store.Create, Key: object.KeyOf(o), UID: fmt.Sprint(i), Data: data, Object: o})
	}
	s.SubmitMany(t.Context(), ops)
	records, _ := s.Tail("", 0, 10)
	if len(records) != 2 {
		t.Fatalf("%d records, want 2", len(records))
	}
	for i, op := range []store.Op{ops[0], ops[2]} {
		o, err := records[i].Object()
		if err != nil || o != op.Object || o.GetMetadata().GetResourceVersion() != records[i].Revision {
			t.Errorf("revision %d has another object: %v, %v", records[i].Revision, o, err)
		}
	}
	if version := ops[1].Object.GetMetadata().GetResourceVersion(); version != 0 {
		t.Errorf("the object of a refused write is at %d", version)
	}
}
