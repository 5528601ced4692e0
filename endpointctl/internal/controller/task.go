package controller

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/proto/portolan/core/v1"
	"portolan.dev/services/object"

	"portolan.dev/endpointctl/index"
	"portolan.dev/endpointctl/packing"
)

// task is one sync of one service.
type task struct {
	c      *Controller
	key    index.Key
	known  index.Service
	writes int
}

// run brings what belongs to the service to what it should be. If the registry refuses endpoints,
// it begins again without them.
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

// fromPods serves a service with a selector.
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

// fromEndpoints mirrors the Endpoints that somebody wrote for a service without
// selector.
func (t *task) fromEndpoints(ctx context.Context) error {
	if !packing.Mirrored(t.known.Service, t.known.Endpoints) {
		return t.deleteSlices(ctx, t.known.Mirrored)
	}
	want, problems := packing.Mirror(t.known.Endpoints, t.c.refusals.get(t.key))
	t.reportProblems(ctx, problems)
	return t.carryOut(ctx, packing.Pack(want, t.known.Mirrored))
}

// cleanUp removes what a service left behind. An Endpoints that somebody wrote
// goes with its service too, but one that came before its service stays.
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

// carryOut does the writes of a plan, in its order: an endpoint that moves is in
// two slices for a moment, not in none.
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

// wrote takes in what the registry has stored.
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

// failed returns the error of an update or a deletion with what was tried. An object that the
// registry does not find is known no more, so that the next sync does without it.
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

// replaceEndpoints also tells the writer of an Endpoints that it is lost, as in Kubernetes: the
// service of the same name has a selector.
func (t *task) replaceEndpoints(ctx context.Context, want *corev1.Endpoints) error {
	byHand := !packing.ManagedEndpoints(t.known.Endpoints)
	err := t.updateEndpoints(ctx, want)
	if err == nil && byHand {
		t.c.report(ctx, t.known.Service, takenOver,
			"the Endpoints that somebody wrote is replaced by that of the selector; for addresses of your own remove the selector")
	}
	return err
}
