package backup

import (
	"context"
	"errors"
	"iter"

	"portolan.dev/registry/store"
	"portolan.dev/services/object"
)

// ErrNotEmpty is returned if the registry to restore into already has objects.
var ErrNotEmpty = errors.New("the registry is not empty")

// restoreAttempts is the number of attempts to fill a store into which daemons write meanwhile. Each
// attempt fails only if a write comes within the moment between reading the store and filling it.
const restoreAttempts = 20

// Restore fills an empty store. A store is empty if it has only objects that daemons make by themselves.
// Otherwise the error is [ErrNotEmpty].
func Restore(ctx context.Context, s store.Store, b *Backup) error {
	for attempt := 1; ; attempt++ {
		at, err := emptyAt(ctx, s)
		if err != nil {
			return err
		}
		err = s.Restore(ctx, at, b.Revision, func(yield func(store.Row, error) bool) {
			for _, row := range b.Rows {
				if !yield(row, nil) {
					return
				}
			}
		})
		if _, conflict := errors.AsType[*store.ConflictError](err); !conflict || attempt == restoreAttempts {
			return err
		}
	}
}

// emptyAt returns the revision of an empty store, or [ErrNotEmpty].
func emptyAt(ctx context.Context, s store.Store) (at uint64, err error) {
	err = s.Snapshot(ctx, func(head store.Head, rows iter.Seq2[store.Row, error]) error {
		at = head.Revision
		for row, err := range rows {
			if err != nil {
				return err
			}
			made, err := madeByDaemon(row)
			if err != nil {
				return err
			}
			if !made {
				return ErrNotEmpty
			}
		}
		return nil
	})
	return at, err
}

// FromStore writes a backup of a store. It needs no running registry.
func FromStore(ctx context.Context, s store.Store, write func(revision uint64, objects iter.Seq2[object.Object, error]) error) error {
	return s.Snapshot(ctx, func(head store.Head, rows iter.Seq2[store.Row, error]) error {
		return write(head.Revision, func(yield func(object.Object, error) bool) {
			for row, err := range rows {
				var o object.Object
				if err == nil {
					o, err = store.Decode(row.Key.Kind, row.Data, row.Revision)
				}
				if !yield(o, err) || err != nil {
					return
				}
			}
		})
	})
}
