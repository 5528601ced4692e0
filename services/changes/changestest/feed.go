package changestest

import (
	"context"
	"testing"

	"portolan.dev/services/changes"
	"portolan.dev/services/object"
)

// Feed calls an Apply function as a follower would, one change at a time, and returns when it has. It is not safe for concurrent use.
type Feed struct {
	t     testing.TB
	log   *Log
	apply func(ctx context.Context, batch []changes.Change, revision uint64) error
}

// NewFeed hands over objects as the first snapshot, and returns what feeds the changes after it.
func NewFeed(t testing.TB, apply func(ctx context.Context, batch []changes.Change, revision uint64) error, snapshot ...object.Object) *Feed {
	t.Helper()
	f := &Feed{t: t, log: New(t), apply: apply}
	f.log.Put(snapshot...)
	var batch []changes.Change
	for _, o := range f.log.Objects() {
		batch = append(batch, change(o.GetMetadata().GetResourceVersion(), nil, o))
	}
	f.hand(batch)
	return f
}

// Put hands over objects that were created or changed, all at once.
func (f *Feed) Put(objects ...object.Object) uint64 {
	f.t.Helper()
	var batch []changes.Change
	for _, o := range objects {
		key := object.KeyOf(o)
		old := f.log.Get(key)
		revision := f.log.Put(o)
		batch = append(batch, change(revision, old, f.log.Get(key)))
	}
	return f.hand(batch)
}

// Delete hands over the deletion of objects that exist, all at once.
func (f *Feed) Delete(keys ...object.Key) uint64 {
	f.t.Helper()
	var batch []changes.Change
	for _, key := range keys {
		old := f.log.Get(key)
		if old == nil {
			f.t.Fatalf("delete %s: there is none", key)
		}
		batch = append(batch, change(f.log.Delete(key), old, nil))
	}
	return f.hand(batch)
}

// Get returns an object as it was handed over last, nil if there is none.
func (f *Feed) Get(key object.Key) object.Object { return f.log.Get(key) }

func (f *Feed) hand(batch []changes.Change) uint64 {
	f.t.Helper()
	revision := f.log.Revision()
	if err := f.apply(f.t.Context(), batch, revision); err != nil {
		f.t.Fatalf("apply revision %d: %v", revision, err)
	}
	return revision
}

func change(revision uint64, before, after object.Object) changes.Change {
	known := after
	if known == nil {
		known = before
	}
	key := object.KeyOf(known)
	return changes.Change{Revision: revision, Kind: key.Kind, Key: key, Old: before, New: after}
}
