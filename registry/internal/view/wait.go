package view

import (
	"context"

	"portolan.dev/registry/store"
)

// waiter waits for a state. done is closed when the view has reached it, or when waiting fails
// because the store does not answer.
type waiter struct {
	epoch    string // empty: any epoch
	revision uint64
	done     chan struct{}
	err      error // set before done is closed
}

func (w *waiter) satisfied(s *State) bool {
	return s.revision >= w.revision && (w.epoch == "" || w.epoch == s.epoch)
}

// WaitFor returns when the view has reached a revision, or with the error of ctx. If the view is
// behind because the store does not answer, the error is [store.ErrUnavailable], so that the caller
// learns the cause instead of running into its deadline.
func (v *View) WaitFor(ctx context.Context, revision uint64) error {
	return v.wait(ctx, &waiter{revision: revision})
}

// WaitForHead returns when the view has everything up to a head, in the epoch of that head.
func (v *View) WaitForHead(ctx context.Context, head store.Head) error {
	return v.wait(ctx, &waiter{epoch: head.Epoch, revision: head.Revision})
}

func (v *View) wait(ctx context.Context, w *waiter) error {
	if w.satisfied(v.State()) {
		return nil
	}
	w.done = make(chan struct{})
	v.mu.Lock()
	v.waiters[w] = struct{}{}
	v.mu.Unlock()
	defer func() {
		v.mu.Lock()
		delete(v.waiters, w)
		v.mu.Unlock()
	}()
	if w.satisfied(v.State()) { // reached between the first check and the registration
		return nil
	}
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (v *View) wakeWaiters(state *State) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for w := range v.waiters {
		if w.satisfied(state) {
			close(w.done)
			delete(v.waiters, w)
		}
	}
}

// failWaiters fails all waiters with err.
func (v *View) failWaiters(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for w := range v.waiters {
		w.err = err
		close(w.done)
		delete(v.waiters, w)
	}
}
