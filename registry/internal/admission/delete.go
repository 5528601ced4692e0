package admission

import (
	"context"
	"errors"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/rules"
	"portolan.dev/registry/internal/view"
	"portolan.dev/registry/store"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

// Deletion holds the parameters of a delete request.
type Deletion struct {
	UID      string // the object's UID, as a precondition; empty: any
	Revision uint64 // the object's version, as a precondition; 0: any
	Grace    *int64 // grace period in seconds; nil: the default of the kind
}

// Delete removes an object. If finalizers, a grace period or its kind keep the object, Delete marks
// it instead. It returns the object as it last was, or as it is marked.
func (w *Writer) Delete(ctx context.Context, key object.Key, deletion Deletion, options Options) (*Result, error) {
	row := rules.Named(key.Kind)
	for attempt := 0; ; attempt++ {
		s, err := w.findDeletion(ctx, row, key, deletion, options)
		if errors.Is(err, errViewOutdated) {
			continue
		} else if err != nil {
			return nil, err
		}
		old := s.old
		result, err := w.perform(ctx, s, options)
		if err == nil && !result.Changed { // the view has the object as being deleted, but the view may be outdated
			err = w.checkCurrent(ctx, old)
		}
		newer, lost := conflictingVersion(err)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return nil, apierr.NotFound(key.Kind, key.Path())
		case !lost:
			return result, err
		case s.conditional || attempt == maxRetries:
			return nil, apierr.Conflict(key.Kind, key.Path(), newer, old.Revision)
		}
		if err := w.catchUp(ctx); err != nil {
			return nil, err
		}
	}
}

// findDeletion returns the step that removes or marks the version that the view has. The error is
// errViewOutdated if there is a newer one.
func (w *Writer) findDeletion(ctx context.Context, row *rules.Kind, key object.Key, deletion Deletion, options Options) (*step, error) {
	old, err := w.find(ctx, key)
	if err != nil {
		return nil, err
	}
	if err := w.checkDelete(ctx, row, old, deletion); err != nil {
		return nil, err
	}
	s, err := w.deletion(row, old, deletion.Grace, options)
	if err != nil {
		return nil, err
	}
	s.conditional = deletion.Revision != 0
	return s, nil
}

func (w *Writer) checkDelete(ctx context.Context, row *rules.Kind, old *view.Item, deletion Deletion) error {
	seen := row.New()
	meta := object.MetaOf(seen)
	meta.Uid, meta.ResourceVersion = deletion.UID, deletion.Revision
	if err := w.checkVersion(ctx, seen, old); err != nil {
		return err
	}
	if row.DeletionForbidden != nil {
		if why := row.DeletionForbidden(old.Object); why != "" {
			return apierr.FailedPrecondition(why)
		}
	}
	return nil
}

// deletion returns the step that removes or marks exactly this version.
func (w *Writer) deletion(row *rules.Kind, old *view.Item, wanted *int64, options Options) (*step, error) {
	if err := options.checkLimit(nil, old.Object); err != nil {
		return nil, err
	}
	grace := int64(0)
	if row.Grace != nil {
		grace = row.Grace(old.Object, wanted)
	}
	s := &step{row: row, old: old, revokes: w.RevokeDeleted && row.IdentitiesOf != nil}
	if row.MarkTerminating == nil && len(old.Object.GetMetadata().GetFinalizers()) == 0 && grace == 0 {
		s.removes, s.result = true, &Result{Object: object.Clone(old.Object), Changed: true, Removed: true}
		if old.Object.GetMetadata().GetDeletionTimestamp() != nil { // its remaining grace period is cut short
			markTerminating(object.MetaOf(s.result.Object), w.validationContext(options).Now, grace)
		}
		return s, nil
	}
	marked := object.Clone(old.Object)
	if !markTerminating(object.MetaOf(marked), w.validationContext(options).Now, grace) {
		return &step{row: row, old: old, result: &Result{Object: marked}}, nil
	}
	if row.MarkTerminating != nil {
		row.MarkTerminating(marked)
	}
	s.write = &pendingWrite{row: row, old: old, o: marked, options: options}
	return s, nil
}

// markTerminating sets the time at which an object will be removed. If the object is already
// marked, it only shortens the grace period, which counts from the first request. It reports
// whether anything changed.
func markTerminating(meta *corev1.ObjectMeta, now time.Time, grace int64) bool {
	requested := now
	if meta.GetDeletionTimestamp() != nil {
		if grace >= meta.GetDeletionGracePeriodSeconds() {
			return false
		}
		requested = meta.GetDeletionTimestamp().AsTime().Add(-seconds(meta.GetDeletionGracePeriodSeconds()))
	}
	meta.DeletionTimestamp = timestamppb.New(requested.Add(seconds(grace)))
	meta.DeletionGracePeriodSeconds = &grace
	return true
}

// MaxGrace is the longest grace period in seconds. A longer one could overflow the computation of
// times.
const MaxGrace = math.MaxInt32

func seconds(n int64) time.Duration { return time.Duration(min(n, MaxGrace)) * time.Second }

// RemovalTime returns the time at which an object that is being deleted will be removed. It returns
// false if the object is not being deleted, or if finalizers or its kind keep it.
func RemovalTime(o object.Object) (at time.Time, ok bool) {
	meta := o.GetMetadata()
	if meta.GetDeletionTimestamp() == nil || len(meta.GetFinalizers()) > 0 || rules.Of(o).MarkTerminating != nil {
		return time.Time{}, false
	}
	return meta.GetDeletionTimestamp().AsTime(), true
}

// Remove removes exactly this version of an object, even if finalizers or its kind keep it. The
// caller has made sure that nothing keeps the object any more. Remove returns nil if the object is
// already gone or has changed.
func (w *Writer) Remove(ctx context.Context, item *view.Item) error {
	_, err := w.remove(ctx, rules.Named(item.Key.Kind), item, Options{})
	if _, lost := conflictingVersion(err); lost || errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}
