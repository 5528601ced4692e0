package admission

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/allocator"
	"portolan.dev/registry/internal/rules"
	"portolan.dev/registry/internal/view"
	"portolan.dev/registry/store"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/tracing"
	"portolan.dev/services/object"
)

// step is a validated write. It stores an object, removes one, or does nothing because the stored
// object is already as the client wants it.
type step struct {
	row     *rules.Kind
	old     *view.Item // the version that the write was validated against; nil: a new object
	options Options

	object  object.Object // stored in the place of old, unless it is nil
	removes bool          // old is removed
	revokes bool          // the certificates of the identities that belong to old are revoked first
	// result is the result of a step that stores no object. The result of a removal lacks the revision.
	result *Result

	conditional bool           // the client named a version
	warns       bool           // the result has the warnings about the stored object
	warnings    []string       // about the change, for people
	charges     []store.Charge // the change of the quotas' counts by object
}

// isPrepared reports whether s is the step of a write, and not the zero step.
func (s *step) isPrepared() bool { return s.row != nil }

// maxAllocations is how often the values of an object are allocated, if commits are refused because
// they may not be used any more.
const maxAllocations = 3

// perform carries out a step: it allocates the values that the object needs, commits, and confirms or
// releases the values. It returns when the commit can be read on this replica. If the step loses a race,
// the error is a [*store.ConflictError], [store.ErrExists] or [store.ErrNotFound].
func (w *Writer) perform(ctx context.Context, s *step) (*Result, error) {
	if s.revokes && !s.options.DryRun {
		if err := w.revoke(ctx, s.row, s.old); err != nil {
			return nil, err
		}
	}
	switch {
	case s.object != nil:
		return w.performStore(ctx, s)
	case !s.removes: // the store has not checked that old is the newest version
		return s.result, w.checkCurrent(ctx, s.old)
	case s.options.DryRun:
		return s.result, nil
	}
	revision, err := w.remove(ctx, s.row, s.old, s.options)
	s.result.Revision = revision
	return s.result, err
}

// performStore carries out a step that stores an object.
func (w *Writer) performStore(ctx context.Context, s *step) (*Result, error) {
	if err := w.charge(s); err != nil {
		return nil, err
	}
	plan := w.plan(s)
	for attempt := 1; ; attempt++ {
		revision, again, err := w.allocateAndCommit(ctx, s, plan)
		switch {
		case err == nil:
			return s.stored(revision), nil
		case !again:
			return nil, err
		case attempt == maxAllocations || !app.Pause(ctx, pauseAfter(err)):
			return nil, apierr.Unavailable(fmt.Sprintf("the values that were allocated may not be used any more: %v", err), retryAfter)
		}
		plan = plan.Again()
	}
}

// retryAfter is the delay that clients are asked to wait if no values can be allocated at present.
const retryAfter = time.Second

// pauseAfter returns the pause after a refused commit. The allocator needs a moment to learn that the
// log has another epoch.
func pauseAfter(err error) time.Duration {
	if _, other := errors.AsType[*store.EpochError](err); other {
		return 200 * time.Millisecond
	}
	return 0
}

// allocateAndCommit allocates the values of a plan and commits the object with them. It returns again
// if the commit was refused because the allocated values may not be used any more. If the object was
// certainly not committed, it is as it was before. A dry run commits nothing.
func (w *Writer) allocateAndCommit(ctx context.Context, s *step, plan *allocator.Plan) (revision uint64, again bool, err error) {
	if plan != nil {
		if err := w.allocate(ctx, plan, s.options); err != nil {
			plan.Undo()
			return 0, false, err
		}
	}
	if s.options.DryRun {
		return 0, false, nil
	}
	if plan != nil {
		w.Allocator.FindReleased(ctx, plan)
	}
	op, err := s.op(plan)
	if err == nil {
		revision, err = w.commit(ctx, op, s.options)
	}
	if plan != nil {
		again = w.Allocator.Finish(ctx, plan, err)
	}
	if err != nil {
		undo(plan, err)
		return 0, again, err
	}
	s.committed(revision)
	return revision, false, w.waitUntilVisible(ctx, revision)
}

// undo makes a service as it was before its plan, because of the error of its commit. If the outcome of
// the commit is unknown, the service stays as it is, because the view may have it.
func undo(plan *allocator.Plan, err error) {
	if plan != nil && !errors.Is(err, store.ErrUnknown) {
		plan.Undo()
	}
}

func (w *Writer) allocate(ctx context.Context, plan *allocator.Plan, options Options) error {
	ctx, span := tracing.Start(ctx, "allocate")
	err := w.Allocator.Allocate(ctx, plan, w.terms(options))
	span.End(err)
	return err
}

func (w *Writer) terms(options Options) allocator.Terms {
	return allocator.Terms{DryRun: options.DryRun, Fenced: options.Fence != nil, InUse: w.Indexes.Backends.Has}
}

// plan returns the allocation plan of a service. It returns nil for other kinds.
func (w *Writer) plan(s *step) *allocator.Plan {
	if s.row.Service == nil {
		return nil
	}
	var before *corev1.Service
	if s.old != nil {
		before = s.row.Service(s.old.Object)
	}
	return allocator.NewPlan(s.row.Service(s.object), before)
}

// charge computes the change of the quotas' counts by the object, and returns an error if a quota has no
// room for it.
func (w *Writer) charge(s *step) error {
	var before object.Object
	if s.old != nil {
		before = s.old.Object
	}
	s.charges = w.Quotas.Charges(s.object, before)
	return w.Quotas.Check(s.charges)
}

// stored returns the result of a step that stores an object. The revision of a dry run is 0.
func (s *step) stored(revision uint64) *Result {
	return &Result{Object: s.object, Changed: true, Created: s.old == nil, Revision: revision}
}

// committed sets the resource_version of the object. The store has done so already if others may read
// the object by now.
func (s *step) committed(revision uint64) {
	if s.object.GetMetadata().GetResourceVersion() != revision {
		object.MetaOf(s.object).ResourceVersion = revision
	}
}
