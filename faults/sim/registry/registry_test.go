package registry

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/faults/sim/netem"
	"portolan.dev/portolan/e2e/churn/workload"
	"portolan.dev/services/object"
)

func node(name string) *corev1.Node { return &corev1.Node{Metadata: &corev1.ObjectMeta{Name: name}} }

func create(r *Registry, name string, refused *int) {
	r.Enqueue(workload.Step{Verb: workload.Create, Object: node(name)}, func(error) { *refused++ })
}

func TestConcurrentWritesShareCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, refused := New(t, netem.New(1)), 0
		for _, name := range []string{"a", "b", "a"} {
			create(r, name, &refused)
		}
		if head := r.Log.Revision(); head != 0 {
			t.Errorf("the log is at %d before the commit", head)
		}
		if o, err := r.Create(t.Context(), node("c")); err != nil || o.GetMetadata().GetResourceVersion() != 3 {
			t.Errorf("the last write is stored as %v, %v", o, err)
		}
		history := r.History()
		if len(history) != 3 || !history[0].At.Equal(history[2].At) || refused != 1 {
			t.Errorf("got commits %v and %d refused writes, want a, b and c at the same time, and the second a refused", history, refused)
		}
	})
}

func TestRestoreBackupStartsNewHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(t, netem.New(1))
		r.Put(node("a"), node("b"), node("c"))
		before, _, _, _ := r.Log.Head(t.Context())
		r.RestoreBackup(2)
		r.Put(node("d"))
		after, head, _, _ := r.Log.Head(t.Context())
		all := r.Histories()
		if before == after || head != 2 || len(all) != 2 || len(all[0]) != 3 || len(all[1]) != 2 {
			t.Fatalf("got epoch %s before and %s after, head %d, histories %v, want different epochs, head 2 and two histories", before, after, head, all)
		}
		if name := object.Unwrap(all[0][1].Change.GetObject()).GetMetadata().GetName(); name != "b" {
			t.Errorf("the second change of the old history is %s, want b", name)
		}
		if name := object.Unwrap(all[1][1].Change.GetObject()).GetMetadata().GetName(); name != "d" {
			t.Errorf("the second change of the new history is %s, want d", name)
		}
		r.Prune()
		if r.RestoreBackup(1); len(r.Histories()) != 2 || r.Log.Revision() != 2 {
			t.Error("RestoreBackup changed a pruned log")
		}
	})
}

func TestSlowStoreDelaysCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		emulator := netem.New(1)
		emulator.Add(netem.Impairment{LinkPrefix: "store", Stall: true}, time.Second)
		r, start := New(t, emulator), time.Now()
		if _, err := r.Create(t.Context(), node("a")); err != nil || time.Since(start) < time.Second {
			t.Errorf("Create returned %v after %s, want nil after at least 1s", err, time.Since(start))
		}
	})
}
