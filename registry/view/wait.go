package view

import "context"

// waiter waits for a revision; done is closed when it has been reached.
type waiter struct {
	revision uint64
	done     chan struct{}
}

// WaitFor returns once the view has reached a revision, or with the error of ctx.
func (v *View) WaitFor(ctx context.Context, revision uint64) error {
	if v.State().Revision() >= revision {
		return nil
	}
	w := &waiter{revision: revision, done: make(chan struct{})}
	v.mu.Lock()
	v.waiters[w] = struct{}{}
	v.mu.Unlock()
	defer func() {
		v.mu.Lock()
		delete(v.waiters, w)
		v.mu.Unlock()
	}()
	if v.State().Revision() >= revision { // reached between the look and the entry
		return nil
	}
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (v *View) wakeWaiters(revision uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for w := range v.waiters {
		if w.revision <= revision {
			close(w.done)
			delete(v.waiters, w)
		}
	}
}
