package admission

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"portolan.dev/registry/internal/allocator"
	"portolan.dev/services/object"
)

// Outcome is the result of one write, or its error.
type Outcome struct {
	Result *Result
	Err    error
}

// WriteMany makes several writes and returns the outcome of each. Writes to different objects are
// independent. Writes to one object are made in their order.
//
// Each write is prepared like a single one. All writes that need no call of another daemon, such as the
// creation of a service whose addresses are at hand, share a commit, and the view is waited for once. A
// write that calls the allocator, or that leads to another write, is performed by itself, beside the
// others. A write that lost a race in the common commit is made by itself after it. Thus there is one
// implementation of each rule, and the common commit needs no retries.
func (w *Writer) WriteMany(ctx context.Context, writes []Write, options Options) []Outcome {
	outcomes := make([]Outcome, len(writes))
	for _, round := range rounds(writes) {
		r := &bulkRound{w: w, options: options, writes: writes, outcomes: outcomes}
		r.run(ctx, round)
	}
	return outcomes
}

// rounds divides writes, given by their places, into rounds, so that no round has two writes to one
// object.
func rounds(writes []Write) [][]int {
	var all [][]int
	seen := make(map[object.Key]int, len(writes)) // writes to an object so far
	for i := range writes {
		round := 0
		if key := writes[i].Key; key.Name != "" {
			round = seen[key]
			seen[key]++
		}
		if round == len(all) {
			all = append(all, make([]int, 0, len(writes)))
		}
		all[round] = append(all[round], i)
	}
	return all
}

// bulkRound makes writes to different objects.
type bulkRound struct {
	w        *Writer
	options  Options
	writes   []Write
	outcomes []Outcome

	joint []bulkWrite // committed together
	alone []bulkWrite // made by themselves, beside the common commit
	again []bulkWrite // lost a race, and are made by themselves after the common commit
}

// bulkWrite is one of the writes of a round.
type bulkWrite struct {
	place   int // in the call
	request *request
	step                    // zero: the write is not prepared
	plan    *allocator.Plan // values at hand that were taken for a joint write; nil: none
}

// run makes the writes at the given places.
func (r *bulkRound) run(ctx context.Context, places []int) {
	requests := make([]request, len(places))
	for i, place := range places {
		r.prepare(ctx, &bulkWrite{place: place, request: &requests[i]})
	}
	beside := r.complete(ctx, r.alone)
	r.perform(ctx)
	beside()
	r.complete(ctx, r.again)()
}

// complete makes writes by themselves, concurrently. The returned function waits for them.
func (r *bulkRound) complete(ctx context.Context, writes []bulkWrite) (wait func()) {
	return goAll(len(writes), func(n int) {
		x := &writes[n]
		r.outcomes[x.place].Result, r.outcomes[x.place].Err = r.w.complete(ctx, x.request, x.step)
	})
}

// prepare validates a write and decides how it is made.
func (r *bulkRound) prepare(ctx context.Context, x *bulkWrite) {
	err := ctx.Err()
	if err == nil {
		*x.request, err = newRequest(r.writes[x.place], r.options)
	}
	alone := x.request.mayWriteAnother()
	if err == nil && !alone {
		x.step, err = r.w.prepare(ctx, x.request)
	}
	switch {
	case err != nil:
		r.fail(x, err)
	case alone:
		r.alone = append(r.alone, *x)
	case r.takeAtHand(x):
		r.joint = append(r.joint, *x)
	case r.w.needsOthers(&x.step):
		r.alone = append(r.alone, *x)
	default:
		r.joint = append(r.joint, *x)
	}
}

// mayWriteAnother reports whether the written object may have another name than r.Key: the name is
// generated, or the object may repeat a stored one.
func (r *request) mayWriteAnother() bool {
	return r.Key.Name == "" || r.mayCreate() && r.row.FindRepeated != nil
}

// takeAtHand takes addresses for the creation of a service from those at hand. It returns false if the
// write is another one, or if there are not enough.
func (r *bulkRound) takeAtHand(x *bulkWrite) bool {
	if x.row.Service == nil || x.object == nil || x.old != nil {
		return false
	}
	plan := r.w.plan(&x.step)
	if !r.w.Allocator.AllocateAtHand(plan, r.w.terms(r.options)) {
		return false
	}
	x.plan = plan
	return true
}

// needsOthers reports whether a step calls the allocator or writes another object first.
func (w *Writer) needsOthers(s *step) bool {
	switch {
	case s.revokes:
		return true
	case s.row.Service == nil:
		return false
	case s.object == nil:
		return s.removes // the values of a removed service are released
	case s.old == nil && object.NeedsClusterIP(s.row.Service(s.object)):
		return true
	}
	plan := w.plan(s)
	return len(plan.Claims) > 0 || len(plan.Released) > 0
}

// goAll calls do for 0 to n-1, concurrently. The returned function waits for them. If one of them
// panics, the returned function panics, so that the caller's recovery applies to all.
func goAll(n int, do func(int)) (wait func()) {
	var running sync.WaitGroup
	var mu sync.Mutex
	var failure any
	for i := range n {
		running.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					mu.Lock()
					defer mu.Unlock()
					failure = fmt.Sprintf("%v\n%s", p, debug.Stack())
				}
			}()
			do(i)
		})
	}
	return func() {
		if running.Wait(); failure != nil {
			panic(failure)
		}
	}
}
