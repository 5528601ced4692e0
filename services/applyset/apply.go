package applyset

import (
	"context"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/client"
	"portolan.dev/services/object"
)

const (
	// fewObjects is the number of objects of one kind below which each object is applied by its own call.
	fewObjects = 10
	// mostObjects and mostBytes limit one bulk call. They are below the registry's limits, so that the
	// progress is reported more often.
	mostObjects = 500
	mostBytes   = 2 << 20
)

// Action is the change that was made to an object.
type Action string

// The actions. They are the words that the command line prints.
const (
	Created    Action = "created"
	Configured Action = "configured"
	Unchanged  Action = "unchanged"
	Pruned     Action = "pruned"
)

// Result is the result of one object.
type Result struct {
	// Object is the object of the set as it was applied, or the stored object that was pruned.
	Object object.Object
	// Action is the change. It is empty if Err is set.
	Action Action
	// Warnings are the warnings of the registry, for people.
	Warnings []string
	// Err is the error if the object could not be applied or pruned.
	Err error
}

// Name returns an object's name as commands print it: "service/web".
func Name(o object.Object) string {
	return strings.ToLower(object.KindOf(o)) + "/" + o.GetMetadata().GetName()
}

// Run applies and prunes objects at a registry.
type Run struct {
	// Registry is the registry.
	Registry *client.Client
	// DryRun lets the registry check everything and change nothing.
	DryRun bool
	// Report is called with the result of each object, by one goroutine at a time.
	Report func(Result)

	mu sync.Mutex // held while Report is called
}

// Apply applies objects, in the order of their kinds.
func (r *Run) Apply(ctx context.Context, objects []object.Object) {
	EachKind(InOrder(objects), object.KeyOf, func(objects []object.Object) {
		if len(objects) < fewObjects {
			r.applyEach(ctx, objects)
			return
		}
		for len(objects) > 0 {
			n := chunk(objects)
			r.applyMany(ctx, objects[:n])
			objects = objects[n:]
		}
	})
}

// chunk returns the number of objects that go into the next bulk call, at least one.
func chunk(objects []object.Object) int {
	n, bytes := 0, 0
	for n < min(len(objects), mostObjects) {
		bytes += proto.Size(objects[n])
		if n > 0 && bytes > mostBytes {
			break
		}
		n++
	}
	return n
}

// applyEach applies each object by a call of its own.
func (r *Run) applyEach(ctx context.Context, objects []object.Object) {
	Concurrently(objects, func(o object.Object) {
		answer, err := r.Registry.Apply(ctx, o, r.DryRun)
		r.applied(o, answer.GetOutcome(), answer.GetWarnings(), err)
	})
}

// applyMany applies objects by one call.
func (r *Run) applyMany(ctx context.Context, objects []object.Object) {
	results, err := r.Registry.ApplyMany(ctx, objects, r.DryRun)
	for i, o := range objects {
		if err != nil {
			r.applied(o, 0, nil, err)
			continue
		}
		r.applied(o, results[i].Outcome, results[i].Warnings, results[i].Err)
	}
}

// applied reports the outcome of an object of the set.
func (r *Run) applied(o object.Object, outcome registryv1.ApplyOutcome, warnings []string, err error) {
	result := Result{Object: o, Err: err}
	if err == nil {
		result.Action, result.Warnings = actionOf(outcome), warnings
	}
	r.report(result)
}

func (r *Run) report(result Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Report(result)
}

func actionOf(outcome registryv1.ApplyOutcome) Action {
	switch outcome {
	case registryv1.ApplyOutcome_APPLY_OUTCOME_CREATED:
		return Created
	case registryv1.ApplyOutcome_APPLY_OUTCOME_CONFIGURED:
		return Configured
	default:
		return Unchanged
	}
}
