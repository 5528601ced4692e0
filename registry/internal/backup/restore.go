package backup

import (
	"context"
	"errors"
	"iter"
	"strings"

	"portolan.dev/registry/store"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// ErrNotEmpty is returned if the registry to restore into already has objects.
var ErrNotEmpty = errors.New("the registry is not empty")

// Restore fills an empty store. A store is empty if it has no object other than the namespace
// default and Leases of values at hand. Otherwise the error is [ErrNotEmpty].
func Restore(ctx context.Context, s store.Store, b *Backup) error {
	var at uint64
	own := false
	err := s.Snapshot(ctx, func(head store.Head, rows iter.Seq2[store.Row, error]) error {
		at = head.Revision
		for row, err := range rows {
			if err != nil {
				return err
			}
			if row.Key != (object.Key{Kind: "Namespace", Name: object.DefaultNamespace}) && !isReserveLease(row.Key) {
				own = true
				return nil
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if own {
		return ErrNotEmpty
	}
	return s.Restore(ctx, at, b.Revision, func(yield func(store.Row, error) bool) {
		for _, row := range b.Rows {
			if !yield(row, nil) {
				return
			}
		}
	})
}

func isReserveLease(key object.Key) bool {
	return key.Kind == "Lease" && key.Namespace == object.DefaultNamespace && strings.HasPrefix(key.Name, spec.ReserveLeasePrefix)
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
