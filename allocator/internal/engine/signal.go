package engine

import "sync"

// signal wakes all goroutines that wait for an event.
type signal struct {
	mu   sync.Mutex
	next chan struct{} // guarded by mu
}

func newSignal() *signal { return &signal{next: make(chan struct{})} }

// wait returns a channel that is closed at the next event.
func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next
}

// fire reports an event.
func (s *signal) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.next)
	s.next = make(chan struct{})
}
