package admission

import (
	"cmp"
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
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/kit/tracing"
	"portolan.dev/services/object"
)

// pendingWrite is a write that has passed validation.
type pendingWrite struct {
	row     *rules.Kind
	old     *view.Item // the version that it was validated against; nil: a new object
	o       object.Object
	options Options
	charges []store.Charge
}

// oldObject returns the object that the write replaces, or nil.
func (x *pendingWrite) oldObject() object.Object {
	if x.old == nil {
		return nil
	}
	return x.old.Object
}

// maxAllocations is how often the values of an object are allocated, if commits are refused because
// they may not be used any more.
const maxAllocations = 3

// store allocates the values that the object needs, commits the object, and confirms or releases
// the values. If it loses a race, the error is a *store.Conflict or store.ErrExists.
func (w *Writer) store(ctx context.Context, x *pendingWrite) (*Result, error) {
	x.charges = w.Quotas.Charges(x.o, x.oldObject())
	if err := w.Quotas.Check(x.charges); err != nil {
		return nil, err
	}
	plan := w.plan(x)
	for attempt := 1; ; attempt++ {
		result, again, err := w.storeOnce(ctx, x, plan)
		switch {
		case !again:
			return result, err
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

// storeOnce is one attempt of store. It returns again if the commit was refused because the
// allocated values may not be used any more. If the object was certainly not committed, it is as it was before.
func (w *Writer) storeOnce(ctx context.Context, x *pendingWrite, plan *allocator.Plan) (result *Result, again bool, err error) {
	if plan != nil {
		if err := w.allocate(ctx, plan, x.options); err != nil {
			plan.Undo()
			return nil, false, err
		}
	}
	if x.options.DryRun {
		return &Result{Object: x.o, Changed: true, Created: x.old == nil}, false, nil
	}
	if plan != nil {
		w.Allocator.FindReleased(ctx, plan)
	}
	revision, err := w.submit(ctx, x, plan)
	if plan != nil {
		again = w.Allocator.Finish(ctx, plan, err)
	}
	if err != nil {
		undo(plan, err)
		return nil, again, err
	}
	x.committed(revision)
	if err := w.waitUntilVisible(ctx, revision); err != nil {
		return nil, false, err
	}
	return &Result{Object: x.o, Changed: true, Created: x.old == nil, Revision: revision}, false, nil
}

// undo makes a service as it was before its plan, because of the error of its commit. A service that may
// be stored stays as it is, because the view may have it.
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
func (w *Writer) plan(x *pendingWrite) *allocator.Plan {
	if x.row.Service == nil {
		return nil
	}
	var before *corev1.Service
	if x.old != nil {
		before = x.row.Service(x.old.Object)
	}
	return allocator.NewPlan(x.row.Service(x.o), before)
}

// submit commits the object under the conditions of the client and of its allocated values.
func (w *Writer) submit(ctx context.Context, x *pendingWrite, plan *allocator.Plan) (uint64, error) {
	op, err := x.op(plan)
	if err != nil {
		return 0, err
	}
	return w.commit(ctx, op, x.options)
}

// op returns the operation that stores the object. plan is nil if the object needs no values.
func (x *pendingWrite) op(plan *allocator.Plan) (store.Op, error) {
	if err := checkSize(x.o); err != nil { // checked again because defaults and allocated values add to the size
		return store.Op{}, err
	}
	data, err := store.Encode(x.o)
	if err != nil {
		return store.Op{}, err
	}
	fence, epoch := plan.Conditions()
	op := store.Op{
		Action: store.Create, Key: object.KeyOf(x.o), UID: x.o.GetMetadata().GetUid(), Data: data, Object: x.o,
		Fence: cmp.Or(x.options.Fence, fence), LogEpoch: epoch, Charges: x.charges,
	}
	if x.old != nil {
		op.Action, op.Revision = store.Update, x.old.Revision
	}
	if x.row.Epoch != nil {
		op.Epoch = x.row.Epoch(x.o)
	}
	return op, nil
}

// commit writes one operation, unless the client's certificate was revoked since its call began.
// Otherwise a call of the agent of a deleted node, which was on its way when the node was deleted,
// would create the Node again. The stored traceparent lets followers of the log continue the trace
// of the commit. Without a trace here, it is the client's.
func (w *Writer) commit(ctx context.Context, op store.Op, options Options) (uint64, error) {
	ctx, span := tracing.Start(ctx, "commit")
	op.Traceparent = cmp.Or(tracing.Traceparent(ctx), options.Traceparent)
	if err := rpc.CheckRevoked(ctx); err != nil {
		span.End(err)
		return 0, err
	}
	result, err := w.Store.Submit(ctx, op)
	span.Count("portolan.revision", int(result.Revision))
	span.End(err)
	return result.Revision, w.Quotas.Explain(err)
}

// remove deletes exactly this version of an object and releases its allocated values. It returns the
// revision of the deletion.
func (w *Writer) remove(ctx context.Context, row *rules.Kind, old *view.Item, options Options) (uint64, error) {
	revision, err := w.commit(ctx, w.removal(old, options), options)
	if err != nil {
		return 0, err
	}
	if row.Service != nil {
		w.Allocator.ReleaseAll(ctx, row.Service(old.Object))
	}
	return revision, w.waitUntilVisible(ctx, revision)
}

// committed sets the resource_version of the object. The store has done so already if others may read
// the object by now.
func (x *pendingWrite) committed(revision uint64) {
	if x.o.GetMetadata().GetResourceVersion() != revision {
		object.MetaOf(x.o).ResourceVersion = revision
	}
}

// removal returns the operation that deletes exactly this version of an object.
func (w *Writer) removal(old *view.Item, options Options) store.Op {
	return store.Op{
		Action: store.Delete, Key: old.Key, UID: old.Object.GetMetadata().GetUid(), Revision: old.Revision, Data: old.Stored(),
		Fence: options.Fence, Charges: w.Quotas.Charges(nil, old.Object),
	}
}

// waitUntilVisible returns when a committed write can be read on this replica. If the store becomes
// unavailable before that, the error is [store.ErrUnknown], because UNAVAILABLE alone would mean
// that nothing was written.
func (w *Writer) waitUntilVisible(ctx context.Context, revision uint64) error {
	ctx, span := tracing.Start(ctx, "visible")
	err := w.View.WaitFor(ctx, revision)
	span.End(err)
	if errors.Is(err, store.ErrUnavailable) {
		return fmt.Errorf("%w: revision %d is committed and cannot be read: %v", store.ErrUnknown, revision, err) //nolint:errorlint // the write is not unavailable
	}
	return err
}
