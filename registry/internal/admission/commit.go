package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/allocator"
	"portolan.dev/registry/internal/rules"
	"portolan.dev/registry/internal/view"
	"portolan.dev/registry/store"
	"portolan.dev/services/kit/tracing"
	"portolan.dev/services/object"
)

// pendingWrite is a write that has passed validation.
type pendingWrite struct {
	row     *rules.Kind
	old     *view.Item // the version that it was validated against; nil: a new object
	o       object.Object
	options Options
}

// store allocates the values that the object needs, commits the object, and confirms or releases
// the values. If it loses a race, the error is a *store.Conflict or store.ErrExists.
func (w *Writer) store(ctx context.Context, x *pendingWrite) (*Result, error) {
	plan := w.plan(x)
	if plan != nil {
		if err := w.allocate(ctx, plan, x.options.DryRun); err != nil {
			return nil, err
		}
	}
	if x.options.DryRun {
		return &Result{Object: x.o, Changed: true, Created: x.old == nil}, nil
	}
	if plan != nil {
		w.Allocator.FindReleased(ctx, plan)
	}
	revision, err := w.submit(ctx, x)
	if err != nil {
		if plan != nil && !errors.Is(err, store.ErrUnknown) {
			w.Allocator.ReleaseClaims(ctx, plan)
		}
		return nil, err
	}
	if plan != nil {
		w.Allocator.Confirm(plan)
		w.Allocator.ReleaseFound(ctx, plan)
	}
	object.MetaOf(x.o).ResourceVersion = revision
	if err := w.waitUntilVisible(ctx, revision); err != nil {
		return nil, err
	}
	return &Result{Object: x.o, Changed: true, Created: x.old == nil}, nil
}

func (w *Writer) allocate(ctx context.Context, plan *allocator.Plan, dryRun bool) error {
	ctx, span := tracing.Start(ctx, "allocate")
	err := w.Allocator.Allocate(ctx, plan, dryRun, w.Indexes.Backends.Has)
	span.End(err)
	return err
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

func (w *Writer) submit(ctx context.Context, x *pendingWrite) (uint64, error) {
	if err := checkSize(x.o); err != nil { // checked again because defaults and allocated values add to the size
		return 0, err
	}
	data, err := store.Encode(x.o)
	if err != nil {
		return 0, err
	}
	op := store.Op{
		Action: store.Create, Key: object.KeyOf(x.o), UID: x.o.GetMetadata().GetUid(), Data: data,
		Fence: x.options.Fence,
	}
	if x.old != nil {
		op.Action, op.Revision = store.Update, x.old.Revision
	}
	if x.row.Epoch != nil {
		op.Epoch = x.row.Epoch(x.o)
	}
	return w.commit(ctx, op, x.options)
}

// commit writes one operation. The stored traceparent lets followers of the log continue the trace
// of the commit. Without a trace here, it is the client's.
func (w *Writer) commit(ctx context.Context, op store.Op, options Options) (uint64, error) {
	ctx, span := tracing.Start(ctx, "commit")
	op.Traceparent = cmp.Or(tracing.Traceparent(ctx), options.Traceparent)
	result, err := w.Store.Submit(ctx, op)
	span.Count("portolan.revision", int(result.Revision)) //nolint:gosec // it takes long to come that far
	span.End(err)
	return result.Revision, err
}

// remove deletes exactly this version of an object and releases its allocated values.
func (w *Writer) remove(ctx context.Context, row *rules.Kind, old *view.Item, options Options) error {
	op := store.Op{
		Action: store.Delete, Key: old.Key, UID: old.Object.GetMetadata().GetUid(), Revision: old.Revision, Data: old.Stored(),
		Fence: options.Fence,
	}
	revision, err := w.commit(ctx, op, options)
	if err != nil {
		return err
	}
	if row.Service != nil {
		w.Allocator.ReleaseAll(ctx, row.Service(old.Object))
	}
	return w.waitUntilVisible(ctx, revision)
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
