package cli

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/client"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

const (
	// fewObjects is the number of objects of one kind below which each has a call of its own.
	fewObjects = 10
	// mostObjects and mostBytes limit one bulk call. They are below the registry's limits, so that the
	// progress is shown more often.
	mostObjects = 500
	mostBytes   = 2 << 20
)

// applyRun applies the objects of manifests.
type applyRun struct {
	*bulkOperation
	registry *client.Client
	dryRun   bool
}

// apply applies objects of one kind.
func (r *applyRun) apply(ctx context.Context, objects []object.Object) {
	if len(objects) < fewObjects {
		r.applyEach(ctx, objects)
		return
	}
	for len(objects) > 0 {
		n := chunk(objects)
		r.applyMany(ctx, objects[:n])
		objects = objects[n:]
	}
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
func (r *applyRun) applyEach(ctx context.Context, objects []object.Object) {
	concurrently(objects, func(o object.Object) {
		answer, err := r.registry.Apply(ctx, o, r.dryRun)
		r.report(o, answer.GetOutcome(), answer.GetWarnings(), err)
	})
}

// applyMany applies objects by one call. Registries of earlier releases have no such call.
func (r *applyRun) applyMany(ctx context.Context, objects []object.Object) {
	results, err := r.registry.ApplyMany(ctx, objects, r.dryRun)
	if apierr.Code(err) == codes.Unimplemented {
		r.applyEach(ctx, objects)
		return
	}
	for i, o := range objects {
		if err != nil {
			r.report(o, 0, nil, err)
			continue
		}
		r.report(o, results[i].Outcome, results[i].Warnings, results[i].Err)
	}
}

// report prints the outcome of an object.
func (r *applyRun) report(o object.Object, outcome registryv1.ApplyOutcome, warnings []string, err error) {
	if err != nil {
		r.finish(nil, fmt.Errorf("%s: %s", labelOf(o), apierr.Describe(err)))
		return
	}
	dry := ""
	if r.dryRun {
		dry = " (dry run)"
	}
	r.finish(func() {
		for _, warning := range warnings {
			_, _ = fmt.Fprintf(r.errOut, "warning: %s: %s\n", labelOf(o), warning)
		}
		_, _ = fmt.Fprintf(r.out, "%s %s%s\n", labelOf(o), outcomeWord(outcome), dry)
	}, nil)
}

func outcomeWord(outcome registryv1.ApplyOutcome) string {
	switch outcome {
	case registryv1.ApplyOutcome_APPLY_OUTCOME_CREATED:
		return "created"
	case registryv1.ApplyOutcome_APPLY_OUTCOME_CONFIGURED:
		return "configured"
	default:
		return "unchanged"
	}
}
