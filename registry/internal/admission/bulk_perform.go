package admission

import (
	"cmp"
	"context"

	"portolan.dev/registry/store"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/kit/tracing"
)

// perform carries out the steps of the joint writes.
func (r *bulkRound) perform(ctx context.Context) {
	var ops []store.Op
	var stored, unchanged []bulkWrite
	for _, x := range r.joint {
		op, err := r.operation(&x)
		switch {
		case err != nil:
			r.giveBack(ctx, &x, err)
			r.outcomes[x.place].Err = err
		case op != nil:
			ops, stored = append(ops, *op), append(stored, x)
		case !x.result.Changed:
			unchanged = append(unchanged, x)
		default: // a dry run
			r.finish(&x)
		}
	}
	r.commit(ctx, stored, ops)
	r.checkUnchanged(ctx, unchanged)
}

// operation returns the operation of a write, or nil for one that stores nothing, which then has its
// result.
func (r *bulkRound) operation(x *bulkWrite) (*store.Op, error) {
	if x.object == nil {
		if !x.removes || r.options.DryRun {
			return nil, nil
		}
		op := r.w.removal(x.old, r.options)
		return &op, nil
	}
	if err := r.w.charge(&x.step); err != nil {
		return nil, err
	}
	x.result = x.stored(0)
	if r.options.DryRun {
		return nil, nil
	}
	op, err := x.op(x.plan)
	return &op, err
}

// commit commits operations together, and waits until they can be read on this replica.
func (r *bulkRound) commit(ctx context.Context, writes []bulkWrite, ops []store.Op) {
	if len(ops) == 0 {
		return
	}
	if err := rpc.CheckRevoked(ctx); err != nil { // as for a single write
		for i := range writes {
			r.giveBack(ctx, &writes[i], err)
			r.outcomes[writes[i].place].Err = err
		}
		return
	}
	committing, span := tracing.Start(ctx, "commit")
	trace := cmp.Or(tracing.Traceparent(committing), r.options.Traceparent)
	for i := range ops {
		ops[i].Traceparent = trace
	}
	outcomes := r.w.Store.SubmitMany(committing, ops)
	span.Count("portolan.writes", len(ops))
	span.End(nil)
	var newest uint64
	for i := range writes {
		x := &writes[i]
		if err := outcomes[i].Err; err != nil {
			if r.giveBack(ctx, x, err) {
				r.repeat(x)
			} else {
				r.fail(x, r.w.Quotas.Explain(err))
			}
			continue
		}
		newest = max(newest, outcomes[i].Value.Revision)
		x.result.Revision = outcomes[i].Value.Revision
		if x.object != nil {
			x.committed(x.result.Revision)
		}
		if x.plan != nil {
			r.w.Allocator.Finish(ctx, x.plan, nil)
		}
		r.finish(x)
	}
	if newest == 0 {
		return
	}
	if err := r.w.waitUntilVisible(ctx, newest); err != nil {
		for i := range writes {
			if outcomes[i].Err == nil {
				r.outcomes[writes[i].place] = Outcome{Err: err}
			}
		}
	}
}

// checkUnchanged finishes the writes that store nothing, if the versions that the view has are the
// newest. The store has not checked them.
func (r *bulkRound) checkUnchanged(ctx context.Context, writes []bulkWrite) {
	if len(writes) == 0 {
		return
	}
	err := r.w.catchUp(ctx)
	for i := range writes {
		x := &writes[i]
		if err != nil {
			r.outcomes[x.place].Err = err
		} else if now := r.w.View.State().Get(x.old.Key); now == nil || now.Revision != x.old.Revision {
			r.repeat(x)
		} else {
			r.finish(x)
		}
	}
}

// giveBack releases the values that were taken for an object that was not stored because of err. It
// reports whether the write may be stored with other values.
func (r *bulkRound) giveBack(ctx context.Context, x *bulkWrite, err error) (again bool) {
	if x.plan == nil {
		return false
	}
	again = r.w.Allocator.Finish(ctx, x.plan, err)
	undo(x.plan, err)
	return again
}

// fail sets the outcome of a write that failed, or repeats it if it lost a race.
func (r *bulkRound) fail(x *bulkWrite, err error) {
	again, err := x.request.explain(&x.step, err)
	if again {
		r.repeat(x)
		return
	}
	r.outcomes[x.place].Err = err
}

// repeat has a write prepared again, after the common commit.
func (r *bulkRound) repeat(x *bulkWrite) {
	r.again = append(r.again, bulkWrite{place: x.place, request: x.request})
}

// finish sets the outcome of a write that succeeded.
func (r *bulkRound) finish(x *bulkWrite) {
	r.outcomes[x.place].Result = x.request.finish(&x.step, x.result)
}
