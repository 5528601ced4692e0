package controller

import (
	"context"
	"errors"
	"slices"
	"time"

	"portolan.dev/services/object"

	"portolan.dev/endpointctl/internal/index"
	"portolan.dev/endpointctl/internal/packing"
)

// task is one sync of one service.
type task struct {
	c       *shard
	writer  *writer
	key     object.Name
	objects index.Service
	writes  int
	again   time.Duration // after which the service is to be synced again; 0: not
}

// run updates the slices and the Endpoints of the service. If the registry refuses endpoints, it
// starts again without them. If it refuses anything else, only the removals are made.
func (t *task) run(ctx context.Context) error {
	for {
		err := t.sync(ctx)
		if refused := (*refusal)(nil); !errors.As(err, &refused) || !t.c.refusals.add(t.key, refused) {
			t.reportLeftOut(ctx, err)
			if err != nil {
				t.makeRemovals(ctx, err)
			}
			return err
		}
		t.objects = t.c.cfg.Index.Read(t.key)
	}
}

func (t *task) sync(ctx context.Context) error {
	svc := t.objects.Service
	if svc == nil {
		return t.cleanUp(ctx)
	}
	switch packing.UnmanagedReason(svc) {
	case "":
		return t.fromPods(ctx)
	case "no selector":
		t.reportStaleSlices(ctx)
		return t.fromEndpoints(ctx)
	default:
		return t.makeStages(ctx, [][]write{t.allDeletions()})
	}
}

// fromPods syncs a service with a selector. The Endpoints is written beside the first slices. Slices
// that mirrored an Endpoints, when the service had no selector, are deleted after that.
func (t *task) fromPods(ctx context.Context) error {
	svc, verdicts := t.objects.Service, t.verdicts()
	memory := t.memory()
	trigger, done := t.c.changeTimes.compute(t.key, svc, t.objects.Pods)
	want := packing.SlicesFromPods(svc, verdicts, t.c.cfg.MaxPerSlice)
	want.Template.Trigger = trigger
	stages := stagesOf(memory.Pack(want, t.objects.Slices), t.legacyWrites(ctx, verdicts, trigger))
	if err := t.makeStages(ctx, append(stages, deletionsOf(t.objects.Mirrored))); err != nil {
		return err
	}
	done()
	return nil
}

// memory returns the memory of the service.
func (t *task) memory() *packing.Memory { return t.c.memories.of(t.key, len(t.objects.Pods)) }

// verdicts returns the verdicts on the pods of the service.
func (t *task) verdicts() []*packing.PodVerdict {
	return t.memory().EvaluatePods(t.objects.Service, t.objects.Pods, t.objects.FindNode, t.c.refusals.get(t.key))
}

// stagesOf returns the writes of a plan in stages. The writes beside belong to the first.
func stagesOf(plan packing.Plan, beside []write) [][]write {
	stages := [][]write{beside}
	for i, stage := range plan.Stages() {
		if i == len(stages) {
			stages = append(stages, nil)
		}
		stages[i] = append(stages[i], writesOf(stage)...)
	}
	return stages
}

// fromEndpoints mirrors an Endpoints that was written by hand for a service without selector.
func (t *task) fromEndpoints(ctx context.Context) error {
	if !packing.IsMirrored(t.objects.Service, t.objects.Endpoints) {
		return t.makeStages(ctx, [][]write{deletionsOf(t.objects.Mirrored)})
	}
	want, problems := packing.SlicesFromEndpoints(t.objects.Endpoints, t.c.refusals.get(t.key))
	t.reportProblems(ctx, problems)
	return t.makeStages(ctx, stagesOf(packing.Pack(want, t.objects.Mirrored), nil))
}

// cleanUp deletes the controller's objects of a service that does not exist.
func (t *task) cleanUp(ctx context.Context) error {
	if err := t.makeStages(ctx, [][]write{t.allDeletions()}); err != nil {
		return err
	}
	t.c.events.ForgetAll(func(k eventKey) bool { return k.key == t.key })
	t.c.changeTimes.forget(t.key)
	t.c.refusals.forget(t.key)
	t.c.memories.forget(t.key)
	t.c.legacy.forget(t.key)
	return nil
}

// allDeletions returns the deletions of all objects that the controller made for the service.
func (t *task) allDeletions() []write {
	return slices.Concat(deletionsOf(t.objects.Slices), deletionsOf(t.objects.Mirrored), t.managedLegacy())
}
