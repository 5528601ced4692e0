package registry

import (
	"context"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/portolan/e2e/churn/workload"
	"portolan.dev/services/object"
)

// write is a write that waits for its commit.
type write struct {
	apply  func() (object.Object, error) // called during the commit
	stored object.Object
	err    error
	done   chan struct{} // closed when the other fields are set
}

// commit queues a write and waits until it is committed.
func (r *Registry) commit(apply func() (object.Object, error)) (object.Object, error) {
	w := r.queue(apply)
	<-w.done
	return w.stored, w.err
}

// queue adds a write to the next commit. A commit takes as long as the delay of the link "store".
func (r *Registry) queue(apply func() (object.Object, error)) *write {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := &write{apply: apply, done: make(chan struct{})}
	r.queued = append(r.queued, w)
	if len(r.queued) == 1 {
		time.AfterFunc(r.emulator.Next("store").Delay, r.commitAll)
	}
	return w
}

// commitAll commits the queued writes in order. Each has its own revision and outcome.
func (r *Registry) commitAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.queued {
		w.stored, w.err = w.apply()
		close(w.done)
	}
	r.queued = nil
	r.recordCommits()
}

// Enqueue adds a client's step to the next commit without waiting for it, so that several steps can
// share a commit. It calls refused if the step fails. That happens if shrinking has left out an
// earlier step that this one depends on.
func (r *Registry) Enqueue(step workload.Step, refused func(error)) {
	r.queue(func() (object.Object, error) {
		o, err := r.applyStep(step)
		if err != nil {
			refused(err)
		}
		return o, err
	})
}

func (r *Registry) applyStep(step workload.Step) (object.Object, error) {
	ctx := context.Background()
	var stored object.Object
	var err error
	switch step.Verb {
	case workload.Create:
		stored, err = r.create(ctx, step.Object)
	case workload.Update:
		stored, err = r.update(ctx, step.Object, false)
	default:
		return r.remove(ctx, object.KeyOf(step.Object), "", 0)
	}
	if pod, ok := step.Object.(*corev1.Pod); ok && err == nil {
		stored, err = r.update(ctx, pod, true)
	}
	return stored, err
}
