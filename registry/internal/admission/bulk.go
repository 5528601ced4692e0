package admission

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/allocator"
	"portolan.dev/registry/internal/rules"
	"portolan.dev/services/apply"
	"portolan.dev/services/object"
)

// Action is what one of several writes does.
type Action uint8

// The actions, each of which is a method of [Writer].
const (
	Create Action = iota + 1
	Update
	UpdateStatus
	Apply
	Delete
)

// Write is one of several writes.
type Write struct {
	Action Action
	// Key is the key of the object, with its namespace. The name is empty if it is generated.
	Key object.Key
	// Object is the object. It is nil for Delete. The writer modifies it.
	Object object.Object
	// Deletion holds the parameters of Delete.
	Deletion Deletion
}

// Outcome is the result of one write, or its error.
type Outcome struct {
	Result *Result
	Err    error
}

// WriteMany makes several writes and returns the outcome of each. Writes to different objects are
// independent. Those to one object follow each other in their order.
//
// A write takes the steps of a single one. Only the last step is shared: all objects that need no call
// of another daemon, such as a service whose addresses are at hand, are committed together, and the
// view is waited for once. A write that calls the allocator, or that leads to another write, is made by
// itself, beside the others. So is, after the common commit, a write that lost a race in it. Thus there
// is one implementation of each rule, and the common commit needs no retries.
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

	joint []jointStep // steps that are committed together
	alone []aloneStep // writes that are made by themselves, beside the common commit
	again []int       // writes that lost a race
}

// jointStep is a step of a write.
type jointStep struct {
	place int // of the write
	*step
	plan *allocator.Plan // values that were taken for the object; nil: none
}

// aloneStep is a write that is made by itself.
type aloneStep struct {
	place int
	make  func() (*Result, error)
}

// run makes the writes at the given places.
func (r *bulkRound) run(ctx context.Context, places []int) {
	for _, place := range places {
		r.prepare(ctx, place)
	}
	beside := goAll(len(r.alone), func(n int) {
		place := r.alone[n].place
		r.outcomes[place].Result, r.outcomes[place].Err = r.alone[n].make()
	})
	r.commit(ctx)
	beside()
	goAll(len(r.again), func(n int) {
		place := r.again[n]
		r.outcomes[place].Result, r.outcomes[place].Err = r.w.writeOne(ctx, &r.writes[place], r.options)
	})()
}

// goAll calls do for 0 to n-1, concurrently. The returned function waits for them, and panics if
// one of them did, so that the caller's recovery applies to all.
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

// writeOne makes a write by itself.
func (w *Writer) writeOne(ctx context.Context, x *Write, options Options) (*Result, error) {
	switch x.Action {
	case Create:
		return w.Create(ctx, x.Object, options)
	case Update:
		return w.Update(ctx, x.Object, options)
	case UpdateStatus:
		return w.UpdateStatus(ctx, x.Object, options)
	case Apply:
		return w.Apply(ctx, x.Object, options)
	default:
		return w.Delete(ctx, x.Key, x.Deletion, options)
	}
}

// prepare validates a write and decides how it is made.
func (r *bulkRound) prepare(ctx context.Context, place int) {
	x := &r.writes[place]
	if isAlone(x) {
		r.alone = append(r.alone, aloneStep{place, func() (*Result, error) { return r.w.writeOne(ctx, x, r.options) }})
		return
	}
	s, err := r.w.prepareStep(ctx, x, r.options)
	switch {
	case errors.Is(err, errViewOutdated):
		r.again = append(r.again, place)
	case err != nil:
		r.outcomes[place].Err = err
	case r.takeAtHand(place, s):
	case r.w.needsOthers(s):
		r.alone = append(r.alone, aloneStep{place, func() (*Result, error) {
			result, err := r.w.perform(ctx, s, r.options)
			if err == nil {
				return r.finished(x, s, result), nil
			}
			if err = explainLost(x, s, err); errors.Is(err, errAgain) {
				return r.w.writeOne(ctx, x, r.options)
			}
			return nil, err
		}})
	default:
		r.joint = append(r.joint, jointStep{place: place, step: s})
	}
}

// takeAtHand makes the creation of a service a joint step if its addresses are at hand, and reports
// whether it did.
func (r *bulkRound) takeAtHand(place int, s *step) bool {
	if s.row.Service == nil || s.write == nil || s.old != nil {
		return false
	}
	plan := r.w.plan(s.write)
	if !r.w.Allocator.AllocateAtHand(plan, r.w.terms(r.options)) {
		return false
	}
	r.joint = append(r.joint, jointStep{place, s, plan})
	return true
}

// isAlone reports whether a write may become a write to another object than the one it names: its
// name is generated, or it may repeat an object.
func isAlone(x *Write) bool {
	mayRepeat := rules.Named(x.Key.Kind).FindRepeated != nil && (x.Action == Create || x.Action == Apply)
	return x.Key.Name == "" || mayRepeat
}

// needsOthers reports whether a step calls the allocator or writes another object first.
func (w *Writer) needsOthers(s *step) bool {
	switch {
	case s.revokes:
		return true
	case s.row.Service == nil:
		return false
	case s.write == nil:
		return s.removes // a service that is removed gives up its values
	case s.old == nil && object.NeedsClusterIP(s.row.Service(s.write.o)):
		return true
	}
	plan := w.plan(s.write)
	return len(plan.Claims) > 0 || len(plan.Released) > 0
}

// prepareStep validates a write like the method of its action.
func (w *Writer) prepareStep(ctx context.Context, x *Write, options Options) (*step, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if x.Action == Delete {
		return w.findDeletion(ctx, rules.Named(x.Key.Kind), x.Key, x.Deletion, options)
	}
	o := x.Object
	row := rules.Of(o)
	if x.Action == Create {
		managed, err := entriesOfNew(o)
		if err != nil {
			return nil, err
		}
		return w.newObject(ctx, row, o, managed, options)
	}
	if err := checkSize(o); err != nil {
		return nil, err
	}
	switch x.Action {
	case Update:
		row.Default(o)
		return w.modification(ctx, row, x.Key, options, w.updateOf(ctx, o, options, replaceBy(o)))
	case UpdateStatus:
		row.Default(o)
		return w.modification(ctx, row, x.Key, options, w.statusUpdateOf(ctx, o, options))
	}
	application := apply.New(o) // before defaults, which are not applied fields
	setNamespace(o)
	if w.View.State().Get(x.Key) == nil {
		return w.newObject(ctx, row, object.Clone(o), application.Created(time.Now()), options)
	}
	return w.modification(ctx, row, x.Key, options, w.updateOf(ctx, o, options, mergeOf(application)))
}

// newObject returns the step that creates an object with a given name.
func (w *Writer) newObject(ctx context.Context, row *rules.Kind, o object.Object, managed []*corev1.ManagedFields, options Options) (*step, error) {
	world := w.validationContext(options)
	if err := prepareCreate(row, o, options); err != nil {
		return nil, err
	}
	identify(o, world, managed)
	if err := w.validateCreate(ctx, row, world, o); err != nil {
		return nil, err
	}
	return &step{row: row, write: &pendingWrite{row: row, o: o, options: options}}, nil
}
