package clients

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"

	"portolan.dev/faults/history"
	"portolan.dev/portolan/e2e/churn/workload"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/object"
)

// insistence is how long an actor repeats a write before it turns to something else.
const insistence = 15 * time.Second

// actor writes the objects of a namespace of its own, which the workload makes up: services, pods
// and slices that follow from each other, so that daemons have something to do. It uses all
// registries as one, as programs do.
type actor struct {
	caller
	workload *workload.Actor
	registry registry
	think    time.Duration
	deadline time.Duration
}

// run ends only after the last write that belongs together with others.
func (a *actor) run(ctx context.Context) {
	for app.Pause(ctx, a.think) {
		for _, s := range a.workload.Next() {
			a.step(ctx, s)
		}
	}
}

// step carries out a step. The status of a pod is written separately from the rest.
func (a *actor) step(ctx context.Context, s workload.Step) {
	verb := history.Verb(s.Verb)
	if a.insist(ctx, verb, s.Object) && verb != history.Delete && object.KindOf(s.Object) == "Pod" {
		a.insist(ctx, history.UpdateStatus, s.Object)
	}
}

// insist repeats a write until a registry accepts or refuses it, and reports whether one did.
func (a *actor) insist(ctx context.Context, verb history.Verb, o object.Object) bool {
	for deadline := time.Now().Add(insistence); time.Now().Before(deadline); {
		if err := a.try(ctx, verb, object.Clone(o)); !transient(err) {
			return true
		}
		app.Pause(context.WithoutCancel(ctx), again)
	}
	return false
}

func (a *actor) try(ctx context.Context, verb history.Verb, o object.Object) error {
	c := history.Call{Key: object.KeyOf(o), Verb: verb}
	if verb == history.Create || verb == history.Update {
		c.WriteID = a.mark()
		marked(o, c.WriteID)
	}
	_, err := a.do(ctx, a.registry, c, a.deadline, func(ctx context.Context) (object.Object, error) {
		switch verb {
		case history.Create:
			return write(ctx, a.registry, "Create", o)
		case history.Update:
			return write(ctx, a.registry, "Update", o)
		case history.UpdateStatus:
			return writeStatus(ctx, a.registry, o)
		}
		return remove(ctx, a.registry, c.Key, "", 0)
	})
	return err
}

// transient reports whether the same write may succeed later.
func transient(err error) bool {
	switch apierr.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Aborted, codes.ResourceExhausted, codes.Internal, codes.Unknown:
		return true
	}
	return false
}
