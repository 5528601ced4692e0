package admission

import (
	"context"
	"errors"

	"google.golang.org/protobuf/types/known/timestamppb"

	"portolan.dev/registry/kinds"
	"portolan.dev/registry/store"
	"portolan.dev/registry/view"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

// Precondition is what must hold of an object that is to be deleted.
type Precondition struct {
	UID      string // only this incarnation; empty: any
	Revision uint64 // only this version; 0: any
}

// Delete removes an object, or marks it where others must act first. It returns the object as it last was, or as it is marked.
func (w *Writer) Delete(ctx context.Context, key object.Key, precondition Precondition, options Options) (*Result, error) {
	row := kinds.Named(key.Kind)
	for attempt := 0; ; attempt++ {
		old, err := w.find(ctx, key)
		if err != nil {
			return nil, err
		}
		if err := w.checkDelete(ctx, row, old, precondition); errors.Is(err, errAgain) {
			continue
		} else if err != nil {
			return nil, err
		}
		result, err := w.deleteVersion(ctx, row, old, options)
		newer, lost := retriable(err)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return nil, apierr.NotFound(key.Kind, key.Path())
		case !lost:
			return result, err
		case precondition.Revision != 0 || attempt == maxRetries:
			return nil, apierr.Conflict(key.Kind, key.Path(), newer, old.Revision)
		}
		if err := w.catchUp(ctx); err != nil {
			return nil, err
		}
	}
}

func (w *Writer) checkDelete(ctx context.Context, row *kinds.Row, old *view.Item, precondition Precondition) error {
	seen := row.New()
	meta := object.MetaOf(seen)
	meta.Uid, meta.ResourceVersion = precondition.UID, precondition.Revision
	if err := w.checkVersion(ctx, seen, old); err != nil {
		return err
	}
	if row.Undeletable != nil {
		if why := row.Undeletable(old.Object); why != "" {
			return apierr.FailedPrecondition(why)
		}
	}
	return nil
}

// deleteVersion removes or marks exactly this version.
func (w *Writer) deleteVersion(ctx context.Context, row *kinds.Row, old *view.Item, options Options) (*Result, error) {
	if err := options.allow(nil, old.Object); err != nil {
		return nil, err
	}
	meta := old.Object.GetMetadata()
	if row.Terminate == nil && len(meta.GetFinalizers()) == 0 {
		result := &Result{Object: object.Clone(old.Object), Changed: true}
		if options.DryRun {
			return result, nil
		}
		return result, w.remove(ctx, row, old, options)
	}
	marked := object.Clone(old.Object)
	if meta.GetDeletionTimestamp() != nil {
		return &Result{Object: marked}, nil
	}
	after := object.MetaOf(marked)
	after.DeletionTimestamp = timestamppb.New(w.world().Now)
	seconds := int64(0)
	if row.Grace != nil {
		seconds = row.Grace(marked)
	}
	after.DeletionGracePeriodSeconds = &seconds
	if row.Terminate != nil {
		row.Terminate(marked)
	}
	return w.store(ctx, &write{row: row, old: old, o: marked, options: options})
}

// Remove removes exactly this version of an object, whatever kept it so far: for those who have seen to it that nothing does any more. That it has
// gone or changed meanwhile is no error.
func (w *Writer) Remove(ctx context.Context, item *view.Item) error {
	err := w.remove(ctx, kinds.Named(item.Key.Kind), item, Options{})
	if _, lost := retriable(err); lost || errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}
