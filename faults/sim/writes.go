package sim

import (
	"context"
	"time"

	"portolan.dev/portolan/e2e/churn/workload"
	corev1 "portolan.dev/proto/portolan/core/v1"
	"portolan.dev/services/object"
)

// drawWrites adds the writes of an actor, some of which follow each other closely.
func drawWrites(d *drawing, actor int, length time.Duration) {
	a := workload.NewActor(d.random.Uint64(), actor, nodeNames)
	for at := beginning; at < length; {
		for _, step := range a.Next() {
			d.add(at, func(w *world) { w.write(step) }, "%s %s", step.Verb, object.KeyOf(step.Object))
			at += d.upTo(2 * time.Millisecond)
		}
		at += pick(d, d.upTo(3*time.Millisecond), d.upTo(80*time.Millisecond), d.upTo(500*time.Millisecond))
	}
}

// write carries out a client's step. What a dropped step has made impossible is refused, and nothing changes then.
func (w *world) write(step workload.Step) {
	ctx := context.Background()
	var err error
	switch step.Verb {
	case workload.Create:
		_, err = w.registry.Create(ctx, step.Object)
	case workload.Update:
		_, err = w.registry.Update(ctx, step.Object, false)
	default:
		_, err = w.registry.Delete(ctx, object.KeyOf(step.Object), "", 0)
	}
	if pod, ok := step.Object.(*corev1.Pod); ok && step.Verb != workload.Delete && err == nil {
		_, err = w.registry.Update(ctx, pod, true)
	}
	if err != nil {
		w.log.Debug("write refused", "err", err)
	}
}
