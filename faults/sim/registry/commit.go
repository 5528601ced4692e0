package registry

import (
	"context"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/portolan/e2e/churn/workload"
	"portolan.dev/services/object"
)

// write is a change that waits for its commit.
type write struct {
	apply  func() (object.Object, error) // runs inside the commit
	stored object.Object
	err    error
	done   chan struct{} // closed when the other fields are set
}

// commit carries out a write together with all that come meanwhile, and waits for it.
func (r *Registry) commit(apply func() (object.Object, error)) (object.Object, error) {
	w := r.queue(apply)
	<-w.done
	return w.stored, w.err
}

// queue adds a write to the next commit. The weather of the link "store" says how long a commit
// takes.
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

// commitAll commits the writes that wait, one after the other: each has a revision and an outcome
// of its own.
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

// Take carries out a client's step in the next commit and does not wait for it, so that steps that
// follow each other closely are in one commit. A step is refused if steps that were left out have
// made it impossible.
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
