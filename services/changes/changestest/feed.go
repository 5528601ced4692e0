package changestest

import (
	"context"
	"testing"

	"portolan.dev/services/changes"
	"portolan.dev/services/object"
)

// Feed calls an Apply function as a follower would, and returns when the call has returned. It is
// not safe for concurrent use.
type Feed struct {
	t     testing.TB
	log   *Log
	apply ApplyFunc
}

// ApplyFunc is the type of a follower's Apply.
type ApplyFunc func(ctx context.Context, batch []changes.Change, revision uint64) error

// AsFollowed returns a function that passes changes to apply in the form in which a follower with these functions
// keep and trim would pass them. A test that calls Apply through it runs the component in the daemon's
// configuration. The function is not safe for concurrent use.
func AsFollowed(keep func(object.Object) bool, trim func(object.Object), apply ApplyFunc) ApplyFunc {
	view := map[object.Key]object.Object{}
	return func(ctx context.Context, batch []changes.Change, revision uint64) error {
		var passed []changes.Change
		for _, c := range batch {
			c.Old = view[c.Key]
			delete(view, c.Key)
			if c.New != nil && !keep(c.New) {
				c.New = nil
			}
			if c.New != nil {
				c.New = object.Clone(c.New)
				trim(c.New)
				view[c.Key] = c.New
			}
			if c.Old != nil || c.New != nil {
				passed = append(passed, c)
			}
		}
		return apply(ctx, passed, revision)
	}
}

// NewFeed passes objects to apply as the first snapshot, and returns a Feed for the changes after
// it.
func NewFeed(t testing.TB, apply ApplyFunc, snapshot ...object.Object) *Feed {
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

// Put passes created or changed objects to Apply, all in one batch, and returns the new revision.
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

// Delete passes the deletion of existing objects to Apply, all in one batch, and returns the new
// revision.
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

// Revision returns the newest revision.
func (f *Feed) Revision() uint64 { return f.log.Revision() }

// Get returns an object as it was last passed to Apply, or nil if there is none.
func (f *Feed) Get(key object.Key) object.Object { return f.log.Get(key) }

// Objects returns all objects as they were last passed to Apply.
func (f *Feed) Objects() []object.Object { return f.log.Objects() }

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
