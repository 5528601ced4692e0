package admission

import (
	"cmp"
	"context"
	"errors"

	"portolan.dev/registry/store"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/kit/tracing"
)

// errAgain is the error of a step that lost a race and that is prepared again.
var errAgain = errors.New("the write lost a race")

// commit makes the joint steps.
func (r *bulkRound) commit(ctx context.Context) {
	var ops []store.Op
	var stored, unchanged []jointStep
	for _, s := range r.joint {
		op, err := r.operation(s)
		switch {
		case err != nil:
			r.giveBack(ctx, s, err)
			r.outcomes[s.place].Err = err
		case op != nil:
			ops, stored = append(ops, *op), append(stored, s)
		case !s.result.Changed:
			unchanged = append(unchanged, s)
		default: // a dry run
			r.finish(s, s.result)
		}
	}
	r.submit(ctx, stored, ops)
	r.checkUnchanged(ctx, unchanged)
}

// operation returns the operation of a step, or nil for a step that writes nothing, which then has
// its result.
func (r *bulkRound) operation(s jointStep) (*store.Op, error) {
	if s.write == nil {
		if !s.removes || r.options.DryRun {
			return nil, nil
		}
		op := r.w.removal(s.old, r.options)
		return &op, nil
	}
	s.write.charges = r.w.Quotas.Charges(s.write.o, s.write.oldObject())
	if err := r.w.Quotas.Check(s.write.charges); err != nil {
		return nil, err
	}
	s.result = &Result{Object: s.write.o, Changed: true, Created: s.old == nil}
	if r.options.DryRun {
		return nil, nil
	}
	op, err := s.write.op(s.plan)
	return &op, err
}

// submit commits operations together, and waits until they can be read on this replica.
func (r *bulkRound) submit(ctx context.Context, steps []jointStep, ops []store.Op) {
	if len(ops) == 0 {
		return
	}
	if err := rpc.CheckRevoked(ctx); err != nil { // as for a single write
		for _, s := range steps {
			r.giveBack(ctx, s, err)
			r.outcomes[s.place].Err = err
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
	for i, s := range steps {
		if err := outcomes[i].Err; err != nil {
			if r.giveBack(ctx, s, err) {
				r.again = append(r.again, s.place)
			} else {
				r.fail(s, r.w.Quotas.Explain(err))
			}
			continue
		}
		newest = max(newest, outcomes[i].Value.Revision)
		s.result.Revision = outcomes[i].Value.Revision
		if s.write != nil {
			s.write.committed(s.result.Revision)
		}
		if s.plan != nil {
			r.w.Allocator.Finish(ctx, s.plan, nil)
		}
		r.finish(s, s.result)
	}
	if newest == 0 {
		return
	}
	if err := r.w.waitUntilVisible(ctx, newest); err != nil {
		for i, s := range steps {
			if outcomes[i].Err == nil {
				r.outcomes[s.place] = Outcome{Err: err}
			}
		}
	}
}

// checkUnchanged finishes the steps that write nothing, if the versions that the view has are the
// newest. The store has not checked them.
func (r *bulkRound) checkUnchanged(ctx context.Context, steps []jointStep) {
	if len(steps) == 0 {
		return
	}
	err := r.w.catchUp(ctx)
	for _, s := range steps {
		if err != nil {
			r.outcomes[s.place].Err = err
		} else if now := r.w.View.State().Get(s.old.Key); now == nil || now.Revision != s.old.Revision {
			r.again = append(r.again, s.place)
		} else {
			r.finish(s, s.result)
		}
	}
}

// giveBack gives up the values that were taken for an object that was not stored because of err. It
// reports whether the write may be stored with other values.
func (r *bulkRound) giveBack(ctx context.Context, s jointStep, err error) (again bool) {
	if s.plan == nil {
		return false
	}
	again = r.w.Allocator.Finish(ctx, s.plan, err)
	undo(s.plan, err)
	return again
}

// fail sets the outcome of a step that was refused, or has it prepared again.
func (r *bulkRound) fail(s jointStep, err error) {
	if err = explainLost(&r.writes[s.place], s.step, err); errors.Is(err, errAgain) {
		r.again = append(r.again, s.place)
		return
	}
	r.outcomes[s.place].Err = err
}

// explainLost returns the error for the client of a step that the store refused, or errAgain if the
// client would want the write to be made on the newer version.
func explainLost(x *Write, s *step, err error) error {
	newer, lost := conflictingVersion(err)
	switch {
	case s.old == nil && errors.Is(err, store.ErrExists) && x.Action == Create:
		return apierr.AlreadyExists(x.Key.Kind, x.Key.Path())
	case s.old == nil && errors.Is(err, store.ErrExists):
		return errAgain
	case x.Action == Delete && errors.Is(err, store.ErrNotFound):
		return apierr.NotFound(x.Key.Kind, x.Key.Path())
	case lost && s.conditional:
		return apierr.Conflict(x.Key.Kind, x.Key.Path(), newer, s.old.Revision)
	case lost, errors.Is(err, store.ErrNotFound):
		return errAgain
	}
	return err
}

// finish sets the outcome of a step that succeeded.
func (r *bulkRound) finish(s jointStep, result *Result) {
	r.outcomes[s.place].Result = r.finished(&r.writes[s.place], s.step, result)
}

// finished adds the warnings to the result of a step.
func (r *bulkRound) finished(x *Write, s *step, result *Result) *Result {
	if x.Action == Delete || x.Action == UpdateStatus {
		return result
	}
	result.Warnings = append(r.options.warnings(s.row, result.Object), s.warnings...)
	return result
}
