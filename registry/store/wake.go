package store

import "sync"

// Waker notifies any number of waiters that the head may have moved. The zero value is ready.
type Waker struct {
	mu    sync.Mutex
	moved chan struct{} // guarded by mu; nil while there is no waiter
}

// Wake implements Wake of [Store].
func (w *Waker) Wake() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.moved == nil {
		w.moved = make(chan struct{})
	}
	return w.moved
}

// Notify wakes all waiters.
func (w *Waker) Notify() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.moved != nil {
		close(w.moved)
		w.moved = nil
	}
}
