package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"portolan.dev/registry/internal/allocator"
	"portolan.dev/registry/internal/rules"
	"portolan.dev/registry/internal/view"
	"portolan.dev/registry/store"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/kit/tracing"
	"portolan.dev/services/object"
)

// op returns the operation that stores the object. plan is nil if the object needs no values.
func (s *step) op(plan *allocator.Plan) (store.Op, error) {
	if err := checkSize(s.object); err != nil { // checked again because defaults and allocated values add to the size
		return store.Op{}, err
	}
	data, err := store.Encode(s.object)
	if err != nil {
		return store.Op{}, err
	}
	fence, epoch := plan.Conditions()
	op := store.Op{
		Action: store.Create, Key: object.KeyOf(s.object), UID: s.object.GetMetadata().GetUid(), Data: data, Object: s.object,
		Fence: cmp.Or(s.options.Fence, fence), LogEpoch: epoch, Charges: s.charges,
	}
	if s.old != nil {
		op.Action, op.Revision = store.Update, s.old.Revision
	}
	if s.row.Epoch != nil {
		op.Epoch = s.row.Epoch(s.object)
	}
	return op, nil
}

// commit writes one operation, unless the client's certificate was revoked since its call began.
// Otherwise a call of the agent of a deleted node, which was on its way when the node was deleted,
// would create the Node again. The stored traceparent lets followers of the log continue the trace
// of the commit. If this process does not trace the call, the client's traceparent is stored.
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
