package controller

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"

	"portolan.dev/endpointctl/internal/index"
	"portolan.dev/endpointctl/internal/packing"
)

// task is one sync of one service.
type task struct {
	c       *Controller
	key     object.Name
	objects index.Service
	writes  int
}

// run updates the slices and the Endpoints of the service. If the registry refuses endpoints, it
// starts again without them.
func (t *task) run(ctx context.Context) error {
	for {
		err := t.sync(ctx)
		if refused := (*refusal)(nil); !errors.As(err, &refused) || !t.c.refusals.add(t.key, refused) {
			t.reportLeftOut(ctx, err)
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
	t.c.forgetDeleted(t.key)
	t.reportPending(ctx)
	switch packing.UnmanagedReason(svc) {
	case "":
		return errors.Join(t.fromPods(ctx), t.deleteSlices(ctx, t.objects.Mirrored))
	case "no selector":
		t.reportStaleSlices(ctx)
		return t.fromEndpoints(ctx)
	default:
		return errors.Join(t.deleteSlices(ctx, t.objects.Slices), t.deleteSlices(ctx, t.objects.Mirrored), t.deleteManagedEndpoints(ctx))
	}
}

// fromPods syncs a service with a selector.
func (t *task) fromPods(ctx context.Context) error {
	svc := t.objects.Service
	verdicts := packing.EvaluatePods(svc, t.objects.Pods, t.objects.FindNode, t.c.refusals.get(t.key))
	trigger, done := t.c.changeTimes.compute(t.key, svc, t.objects.Pods)
	want := packing.SlicesFromPods(svc, verdicts, t.c.cfg.MaxPerSlice)
	want.Template.Trigger = trigger
	if err := t.execute(ctx, packing.Pack(want, t.objects.Slices)); err != nil {
		return err
	}
	legacy := packing.EndpointsFromPods(svc, verdicts, trigger, t.objects.Endpoints)
	if err := t.putEndpoints(ctx, legacy); err != nil {
		return err
	}
	done()
	return nil
}

// fromEndpoints mirrors an Endpoints that was written by hand for a service without selector.
func (t *task) fromEndpoints(ctx context.Context) error {
	if !packing.IsMirrored(t.objects.Service, t.objects.Endpoints) {
		return t.deleteSlices(ctx, t.objects.Mirrored)
	}
	want, problems := packing.SlicesFromEndpoints(t.objects.Endpoints, t.c.refusals.get(t.key))
	t.reportProblems(ctx, problems)
	return t.execute(ctx, packing.Pack(want, t.objects.Mirrored))
}

// cleanUp deletes the objects of a service that does not exist. An Endpoints written by hand is
// deleted with its service, but one that was written before its service was created stays.
func (t *task) cleanUp(ctx context.Context) error {
	err := errors.Join(t.deleteSlices(ctx, t.objects.Slices), t.deleteSlices(ctx, t.objects.Mirrored))
	if t.c.wasDeleted(t.key) {
		err = errors.Join(err, t.deleteEndpoints(ctx, t.objects.Endpoints))
	} else {
		err = errors.Join(err, t.deleteManagedEndpoints(ctx))
	}
	if err != nil {
		return err
	}
	t.c.forgetDeleted(t.key)
	t.c.forgetReported(t.key)
	t.c.changeTimes.forget(t.key)
	t.c.refusals.forget(t.key)
	return nil
}

// execute makes the writes of a plan in the plan's order. An endpoint that moves is thus in two
// slices for a moment, and never in none.
func (t *task) execute(ctx context.Context, p packing.Plan) error {
	for _, s := range p.Create {
		if err := t.createSlice(ctx, s); err != nil {
			return err
		}
	}
	for _, s := range p.Update {
		if err := t.updateSlice(ctx, s); err != nil {
			return err
		}
	}
	return t.deleteSlices(ctx, p.Delete)
}

func (t *task) deleteManagedEndpoints(ctx context.Context) error {
	if !packing.IsManaged(t.objects.Endpoints) {
		return nil
	}
	return t.deleteEndpoints(ctx, t.objects.Endpoints)
}

// recordWrite records an object as the registry stored it.
func (t *task) recordWrite(o object.Object, op string) {
	t.writes++
	t.c.metrics.writes.WithLabelValues(object.KindOf(o), op).Inc()
	t.c.cfg.Index.RecordWrite(o)
}

func (t *task) recordDeletion(o object.Object) {
	t.writes++
	t.c.metrics.writes.WithLabelValues(object.KindOf(o), opDelete).Inc()
	t.c.cfg.Index.RecordDeletion(o)
}

// writeError returns the error of an update or deletion, wrapped with the operation. If the
// registry does not find the object, the index drops it, so that the next sync does not use it.
func (t *task) writeError(o object.Object, op string, err error) error {
	if status.Code(err) == codes.NotFound {
		t.c.cfg.Index.RecordDeletion(o)
	}
	return fmt.Errorf("%s %s %s: %w", op, object.KindOf(o), o.GetMetadata().GetName(), err)
}

func (t *task) putEndpoints(ctx context.Context, want *corev1.Endpoints) error {
	switch {
	case want == t.objects.Endpoints:
		return nil
	case t.objects.Endpoints == nil:
		return t.createEndpoints(ctx, want)
	default:
		return t.replaceEndpoints(ctx, want)
	}
}

// replaceEndpoints updates an Endpoints. If it was written by hand, it also reports an event,
// because the service of that name has a selector and the content is lost, as in Kubernetes.
func (t *task) replaceEndpoints(ctx context.Context, want *corev1.Endpoints) error {
	byHand := !packing.IsManaged(t.objects.Endpoints)
	err := t.updateEndpoints(ctx, want)
	if err == nil && byHand {
		t.c.report(ctx, t.objects.Service, endpointsReplacedReason,
			"the Endpoints that somebody wrote is replaced by that of the selector; for addresses of your own remove the selector")
	}
	return err
}
