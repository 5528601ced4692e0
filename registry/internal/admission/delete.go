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

// prepareDelete returns the step that removes or marks the stored version old.
func (w *Writer) prepareDelete(ctx context.Context, r *request, old *view.Item) (step, error) {
	uid, version := r.precondition()
	if err := w.checkVersion(ctx, uid, version, old); err != nil {
		return step{}, err
	}
	if r.row.DeletionForbidden != nil {
		if why := r.row.DeletionForbidden(old.Object); why != "" {
			return step{}, apierr.FailedPrecondition(why)
		}
	}
	if err := r.options.checkLimit(nil, old.Object); err != nil {
		return step{}, err
	}
	s := w.deletion(r, old)
	s.conditional = version != 0
	return s, nil
}

// deletion returns the step that removes or marks exactly this version.
func (w *Writer) deletion(r *request, old *view.Item) step {
	row := r.row
	grace := int64(0)
	if row.Grace != nil {
		grace = row.Grace(old.Object, r.Deletion.Grace)
	}
	s := step{row: row, old: old, options: r.options, revokes: w.RevokeDeleted && row.IdentitiesOf != nil}
	if row.MarkTerminating == nil && len(old.Object.GetMetadata().GetFinalizers()) == 0 && grace == 0 {
		s.removes, s.result = true, &Result{Object: object.Clone(old.Object), Changed: true, Removed: true}
		if old.Object.GetMetadata().GetDeletionTimestamp() != nil { // its remaining grace period is cut short
			markTerminating(object.MetaOf(s.result.Object), w.validationContext(r.options).Now, grace)
		}
		return s
	}
	marked := object.Clone(old.Object)
	if !markTerminating(object.MetaOf(marked), w.validationContext(r.options).Now, grace) {
		s.revokes, s.result = false, &Result{Object: marked}
		return s
	}
	if row.MarkTerminating != nil {
		row.MarkTerminating(marked)
	}
	s.object = marked
	return s
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
