package changestest_test

import (
	"context"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/object"
)

func node(name string) *corev1.Node { return &corev1.Node{Metadata: &corev1.ObjectMeta{Name: name}} }

func TestFeed(t *testing.T) {
	var calls [][]changes.Change
	var revisions []uint64
	feed := changestest.NewFeed(t, func(_ context.Context, batch []changes.Change, revision uint64) error {
		calls, revisions = append(calls, batch), append(revisions, revision)
		return nil
	}, node("b"), node("a"))
	key := object.Key{Kind: "Node", Name: "a"}
	first := feed.Get(key)
	feed.Put(node("a"), node("c"))
	second := feed.Get(key)
	feed.Delete(key)

	if len(calls) != 3 || revisions[0] != 2 || revisions[1] != 4 || revisions[2] != 5 {
		t.Fatalf("%d calls at %v", len(calls), revisions)
	}
	if got := calls[0]; len(got) != 2 || got[0].New != first || got[0].Old != nil || got[0].Revision != 2 {
		t.Errorf("snapshot: %+v", got)
	}
	if got := calls[1]; len(got) != 2 || got[0].Old != first || got[0].New != second || got[1].Old != nil || got[1].Revision != 4 {
		t.Errorf("put: %+v", got)
	}
	if got := calls[2]; len(got) != 1 || got[0].Old != second || got[0].New != nil || got[0].Key != key || got[0].Kind != "Node" {
		t.Errorf("delete: %+v", got)
	}
	if first.GetMetadata().GetUid() == "" || first.GetMetadata().GetUid() != second.GetMetadata().GetUid() {
		t.Errorf("uid %q became %q", first.GetMetadata().GetUid(), second.GetMetadata().GetUid())
	}
}

func TestLogRefuses(t *testing.T) {
	log := changestest.New(t)
	log.Put(node("a"), node("b"), node("c"))
	log.Prune(2)
	if _, err := log.After(t.Context(), 1, 10); err == nil {
		t.Error("pruned changes are still there")
	}
	got, err := log.After(t.Context(), 2, 10)
	if err != nil || len(got) != 1 || got[0].GetRevision() != 3 {
		t.Errorf("After(2) = %v, %v", got, err)
	}
	if got, err := log.After(t.Context(), 3, 10); err != nil || len(got) != 0 {
		t.Errorf("After(3) = %v, %v", got, err)
	}
}
