package controller

import (
	"context"
	"fmt"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/batch"
	"portolan.dev/services/kit/tracing"
)

// Limits of one call. The registry takes 1000 operations and 4 MiB. Below that there is room for the
// encoding around the objects.
const (
	maxCallWrites = 1000
	maxCallBytes  = 3 << 20
)

// stored is the identity of an object after a write.
type stored struct {
	name, uid string
	revision  uint64
	removed   bool // the object does not exist any more
}

// queued is a write that waits for its call.
type queued struct {
	write
	operation *registryv1.WriteOperation
	span      tracing.Span // of the sync that makes the write
}

// writer makes the writes of one leadership, many with each call. It is safe for concurrent use.
type writer struct {
	bulk  registryv1.BulkServiceClient
	group *batch.Group[queued, stored]
}

// newWriter returns a writer for the time in which this replica leads the shard. The context leading
// carries the epoch of the Lease, and the registry refuses writes of an older epoch.
func (c *shard) newWriter(leading context.Context) *writer {
	w := &writer{bulk: registryv1.NewBulkServiceClient(c.cfg.Registry)}
	w.group = batch.New(batch.Options[queued]{
		MaxItems: maxCallWrites, MaxBytes: maxCallBytes, Size: func(q queued) int { return q.operation.SizeVT() },
		Timeout: c.cfg.SyncTimeout, Observe: c.metrics.called,
	}, func(ctx context.Context, all []queued) []batch.Outcome[stored] {
		deadline, _ := ctx.Deadline()
		ctx, cancel := context.WithDeadline(traced(leading, all), deadline)
		defer cancel()
		return w.call(ctx, all)
	})
	return w
}

// makeWrites makes writes and returns the outcome of each. ctx has the span of the sync.
func (w *writer) makeWrites(ctx context.Context, writes []write) []batch.Outcome[stored] {
	span := tracing.SpanFromContext(ctx)
	all := make([]queued, len(writes))
	for i, one := range writes {
		all[i] = queued{one, one.operation(), span}
	}
	return w.group.DoMany(ctx, all)
}

// call makes the writes of one batch.
func (w *writer) call(ctx context.Context, all []queued) []batch.Outcome[stored] {
	request := &registryv1.WriteRequest{Brief: true, Operations: make([]*registryv1.WriteOperation, len(all))}
	for i := range all {
		request.Operations[i] = all[i].operation
	}
	response, err := w.bulk.Write(ctx, request)
	if err == nil && len(response.GetResults()) != len(all) {
		err = fmt.Errorf("the registry returned %d results for %d writes", len(response.GetResults()), len(all))
	}
	if err != nil {
		return batch.Fail[stored](len(all), err)
	}
	outcomes := make([]batch.Outcome[stored], len(all))
	for i, result := range response.GetResults() {
		outcomes[i] = outcomeOf(result)
	}
	return outcomes
}

// traced adds the span of the first traced write to the context of a call. A call has one trace. If its
// writes belong to several traces, the other traces end with their syncs.
func traced(ctx context.Context, all []queued) context.Context {
	for i := range all {
		if all[i].span.Recorded() {
			return all[i].span.ContextWith(ctx)
		}
	}
	return ctx
}

func outcomeOf(result *registryv1.WriteResult) batch.Outcome[stored] {
	if result.GetOutcome() == registryv1.WriteOutcome_WRITE_OUTCOME_FAILED {
		failure := result.GetError()
		return batch.Outcome[stored]{Err: apierr.FromFields(failure.GetCode(), failure.GetMessage(), failure.GetDetails())}
	}
	return batch.Outcome[stored]{Value: stored{
		name: result.GetName(), uid: result.GetUid(), revision: result.GetResourceVersion(),
		removed: result.GetOutcome() == registryv1.WriteOutcome_WRITE_OUTCOME_DELETED,
	}}
}
