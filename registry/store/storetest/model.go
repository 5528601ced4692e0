package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"portolan.dev/registry/store"
	"portolan.dev/services/object"
)

// model implements the rules for writes, one write at a time.
type model struct {
	epoch    string // of the log
	revision uint64
	rows     map[object.Key]store.Row
}

// apply returns the expected revision of a write, or the expected error as describe words it.
func (m *model) apply(op store.Op) (uint64, string) {
	row, exists := m.rows[op.Key]
	if op.LogEpoch != "" && op.LogEpoch != m.epoch {
		return 0, "epoch"
	}
	if op.Fence != nil && m.rows[op.Fence.Lease].Epoch != op.Fence.Epoch {
		return 0, "fenced"
	}
	if op.Fence != nil && m.rows[op.Fence.Lease].Revision == 0 {
		return 0, "fenced"
	}
	if op.Action == store.Create {
		if exists {
			return 0, "exists"
		}
	} else {
		if !exists {
			return 0, "not found"
		}
		if op.UID != "" && op.UID != row.UID {
			return 0, "conflict"
		}
		if op.Revision != 0 && op.Revision != row.Revision {
			return 0, "conflict"
		}
	}
	m.revision++
	if op.Action == store.Delete {
		delete(m.rows, op.Key)
	} else {
		m.rows[op.Key] = store.Row{Key: op.Key, UID: op.UID, Revision: m.revision, Epoch: op.Epoch, Data: op.Data}
	}
	return m.revision, ""
}

// describe returns an error in the words of the model.
func describe(err error) string {
	_, conflict := errors.AsType[*store.ConflictError](err)
	_, fenced := errors.AsType[*store.Fenced](err)
	_, epoch := errors.AsType[*store.EpochError](err)
	switch {
	case err == nil:
		return ""
	case epoch:
		return "epoch"
	case errors.Is(err, store.ErrExists):
		return "exists"
	case errors.Is(err, store.ErrNotFound):
		return "not found"
	case conflict:
		return "conflict"
	case fenced:
		return "fenced"
	}
	return "error: " + err.Error()
}

// names are few, so that a batch often has several writes to one object.
var names = []string{"a", "b", "c"}

// drawOp draws a write that may well succeed and may well fail in each way.
func drawOp(rt *rapid.T, m *model, prefix string, n int) store.Op {
	name := prefix + rapid.SampledFrom(names).Draw(rt, "name")
	row := m.rows[key(name)]
	op := store.Op{
		Action: rapid.SampledFrom([]store.Action{store.Create, store.Update, store.Update, store.Delete}).Draw(rt, "action"), Key: key(name),
		Epoch: rapid.SampledFrom([]uint64{0, 1, 2}).Draw(rt, "epoch"),
	}
	if op.Action == store.Create {
		op.UID = fmt.Sprintf("uid-%s-%d", name, n)
	} else {
		op.UID = rapid.SampledFrom([]string{row.UID, row.UID, row.UID, "another"}).Draw(rt, "uid")
		op.Revision = rapid.SampledFrom([]uint64{0, row.Revision, row.Revision, m.revision + 1, 1}).Draw(rt, "revision")
	}
	if op.Action != store.Delete {
		op.Data = fmt.Appendf(nil, "data %s %d", name, n)
		if op.UID == "" {
			op.UID = "none"
		}
	}
	if rapid.IntRange(0, 4).Draw(rt, "in a log") == 0 {
		op.LogEpoch = rapid.SampledFrom([]string{m.epoch, m.epoch, "another", "a third"}).Draw(rt, "log epoch")
	}
	if rapid.IntRange(0, 4).Draw(rt, "fenced") == 0 {
		op.Fence = &store.Fence{Lease: key(prefix + rapid.SampledFrom(names).Draw(rt, "lease")), Epoch: rapid.SampledFrom([]uint64{0, 1, 2}).Draw(rt, "fence")}
	}
	return op
}

// testBatches compares batches of several writes, many to the same object, with the model.
func testBatches(t *testing.T, place Location) {
	s := open(t, place)
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	example := 0
	rapid.Check(t, func(rt *rapid.T) {
		example++
		prefix := fmt.Sprintf("x%d-", example)
		begin := head(t, s)
		m := &model{epoch: begin.Epoch, revision: begin.Revision, rows: map[object.Key]store.Row{}}
		for range rapid.IntRange(1, 4).Draw(rt, "batches") {
			runBatch(rt, ctx, s, m, prefix)
		}
	})
	if _, err := CheckInvariants(ctx, s); err != nil {
		t.Error(err)
	}
}

func runBatch(rt *rapid.T, ctx context.Context, s Opened, m *model, prefix string) {
	type expected struct {
		revision uint64
		problem  string
	}
	var ops []store.Op
	var want []expected
	for n := range rapid.IntRange(1, 12).Draw(rt, "ops") {
		op := drawOp(rt, m, prefix, n)
		ops = append(ops, op)
		revision, problem := m.apply(op)
		want = append(want, expected{revision, problem})
	}
	for i, outcome := range s.Commit(ctx, ops) {
		got := expected{outcome.Value.Revision, describe(outcome.Err)}
		if got != want[i] {
			rt.Fatalf("%d of %+v: got %+v, want %+v", i, ops, got, want[i])
		}
	}
	if h, err := s.Head(ctx); err != nil || h.Revision != m.revision {
		rt.Fatalf("head %+v, %v; want revision %d", h, err, m.revision)
	}
	askForRows(rt, ctx, s, m, prefix)
}

// askForRows compares the rows of the store with the model. It submits writes that cannot succeed,
// because their errors return the present revision and UID.
func askForRows(rt *rapid.T, ctx context.Context, s Opened, m *model, prefix string) {
	var ops []store.Op
	for _, name := range names {
		ops = append(ops, remove(prefix+name, "", 1<<40))
	}
	for i, outcome := range s.Commit(ctx, ops) {
		k := ops[i].Key
		row, exists := m.rows[k]
		conflict, _ := errors.AsType[*store.ConflictError](outcome.Err)
		switch {
		case !exists && !errors.Is(outcome.Err, store.ErrNotFound), exists && conflict == nil:
			rt.Fatalf("%s: exists is %v, the store says %v", k, exists, outcome.Err)
		case exists && (conflict.Have != row.Revision || conflict.HaveUID != row.UID):
			rt.Fatalf("%s: want revision %d, %s, the store says %+v", k, row.Revision, row.UID, conflict)
		}
	}
}
