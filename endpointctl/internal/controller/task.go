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
	c      *Controller
	key    index.Key
	known  index.Service
	writes int
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
		t.known = t.c.cfg.Index.Read(t.key)
	}
}

func (t *task) sync(ctx context.Context) error {
	svc := t.known.Service
	if svc == nil {
		return t.cleanUp(ctx)
	}
	t.c.forgetDeleted(t.key)
	t.reportPending(ctx)
	switch packing.Unmanaged(svc) {
	case "":
		return errors.Join(t.fromPods(ctx), t.deleteSlices(ctx, t.known.Mirrored))
	case "no selector":
		t.reportUntended(ctx)
		return t.fromEndpoints(ctx)
	default:
		return errors.Join(t.deleteSlices(ctx, t.known.Slices), t.deleteSlices(ctx, t.known.Mirrored), t.deleteManagedEndpoints(ctx))
	}
}

// fromPods syncs a service with a selector.
func (t *task) fromPods(ctx context.Context) error {
	svc := t.known.Service
	verdicts := packing.JudgeAll(svc, t.known.Pods, t.known.FindNode, t.c.refusals.get(t.key))
	trigger, done := t.c.triggers.compute(t.key, svc, t.known.Pods)
	want := packing.Want(svc, verdicts, t.c.cfg.MaxPerSlice)
	want.Template.Trigger = trigger
	if err := t.carryOut(ctx, packing.Pack(want, t.known.Slices)); err != nil {
		return err
	}
	legacy := packing.Legacy(svc, verdicts, trigger, t.known.Endpoints)
	if err := t.putEndpoints(ctx, legacy); err != nil {
		return err
	}
	done()
	return nil
}

// fromEndpoints mirrors an Endpoints that was written by hand for a service without selector.
func (t *task) fromEndpoints(ctx context.Context) error {
	if !packing.Mirrored(t.known.Service, t.known.Endpoints) {
		return t.deleteSlices(ctx, t.known.Mirrored)
	}
	want, problems := packing.Mirror(t.known.Endpoints, t.c.refusals.get(t.key))
	t.reportProblems(ctx, problems)
	return t.carryOut(ctx, packing.Pack(want, t.known.Mirrored))
}

// cleanUp deletes the objects of a service that does not exist. An Endpoints written by hand is
// deleted with its service, but one that was written before its service was created stays.
func (t *task) cleanUp(ctx context.Context) error {
	err := errors.Join(t.deleteSlices(ctx, t.known.Slices), t.deleteSlices(ctx, t.known.Mirrored))
	if t.c.wasDeleted(t.key) {
		err = errors.Join(err, t.deleteEndpoints(ctx, t.known.Endpoints))
	} else {
		err = errors.Join(err, t.deleteManagedEndpoints(ctx))
	}
	if err != nil {
		return err
	}
	t.c.forgetDeleted(t.key)
	t.c.forgetReported(t.key)
	t.c.triggers.forget(t.key)
	t.c.refusals.forget(t.key)
	return nil
}

// carryOut makes the writes of a plan in the plan's order. An endpoint that moves is thus in two
// slices for a moment, and never in none.
func (t *task) carryOut(ctx context.Context, p packing.Plan) error {
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
	if !packing.ManagedEndpoints(t.known.Endpoints) {
		return nil
	}
	return t.deleteEndpoints(ctx, t.known.Endpoints)
}

// wrote records an object as the registry stored it.
func (t *task) wrote(o object.Object, op string) {
	t.writes++
	t.c.metrics.writes.WithLabelValues(object.KindOf(o), op).Inc()
	t.c.cfg.Index.Wrote(o)
}

func (t *task) removed(o object.Object) {
	t.writes++
	t.c.metrics.writes.WithLabelValues(object.KindOf(o), opDelete).Inc()
	t.c.cfg.Index.Deleted(o)
}

// failed returns the error of an update or deletion, wrapped with the operation. If the registry
// does not find the object, the index drops it, so that the next sync does not use it.
func (t *task) failed(o object.Object, op string, err error) error {
	if status.Code(err) == codes.NotFound {
		t.c.cfg.Index.Deleted(o)
	}
	return fmt.Errorf("%s %s %s: %w", op, object.KindOf(o), o.GetMetadata().GetName(), err)
}

func (t *task) putEndpoints(ctx context.Context, want *corev1.Endpoints) error {
	switch {
	case want == t.known.Endpoints:
		return nil
	case t.known.Endpoints == nil:
		return t.createEndpoints(ctx, want)
	default:
		return t.replaceEndpoints(ctx, want)
	}
}

// replaceEndpoints updates an Endpoints. If it was written by hand, it also reports an event,
// because the service of that name has a selector and the content is lost, as in Kubernetes.
func (t *task) replaceEndpoints(ctx context.Context, want *corev1.Endpoints) error {
	byHand := !packing.ManagedEndpoints(t.known.Endpoints)
	err := t.updateEndpoints(ctx, want)
	if err == nil && byHand {
		t.c.report(ctx, t.known.Service, takenOver,
			"the Endpoints that somebody wrote is replaced by that of the selector; for addresses of your own remove the selector")
	}
	return err
}
