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
const retryTimeout = 15 * time.Second

// actor writes the objects of a namespace of its own, which the workload makes up: services, pods
// and slices that follow from each other, so that daemons have something to do. It uses all
// registries as one, as programs do.
type actor struct {
	caller
	workload    *workload.Actor
	registry    registry
	thinkTime   time.Duration
	callTimeout time.Duration
}

// run ends only after the last write that belongs together with others.
func (a *actor) run(ctx context.Context) {
	for app.Pause(ctx, a.thinkTime) {
		for _, s := range a.workload.Next() {
			a.step(ctx, s)
		}
	}
}

// step carries out a step. The status of a pod is written separately from the rest.
func (a *actor) step(ctx context.Context, s workload.Step) {
	verb := history.Verb(s.Verb)
	if a.retry(ctx, verb, s.Object) && verb != history.Delete && object.KindOf(s.Object) == "Pod" {
		a.retry(ctx, history.UpdateStatus, s.Object)
	}
}

// insist repeats a write until a registry accepts or refuses it, and reports whether one did.
func (a *actor) retry(ctx context.Context, verb history.Verb, o object.Object) bool {
	for deadline := time.Now().Add(retryTimeout); time.Now().Before(deadline); {
		if err := a.writeOnce(ctx, verb, object.Clone(o)); !transient(err) {
			return true
		}
		app.Pause(context.WithoutCancel(ctx), retryPause)
	}
	return false
}

func (a *actor) writeOnce(ctx context.Context, verb history.Verb, o object.Object) error {
	c := history.Call{Key: object.KeyOf(o), Verb: verb}
	if verb == history.Create || verb == history.Update {
		c.WriteID = a.nextWriteID()
		setWriteID(o, c.WriteID)
	}
	_, err := a.recordCall(ctx, a.registry, c, a.callTimeout, func(ctx context.Context) (object.Object, error) {
		switch verb {
		case history.Create:
			return writeObject(ctx, a.registry, "Create", o)
		case history.Update:
			return writeObject(ctx, a.registry, "Update", o)
		case history.UpdateStatus:
			return writeStatus(ctx, a.registry, o)
		}
		return deleteObject(ctx, a.registry, c.Key, "", 0)
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
