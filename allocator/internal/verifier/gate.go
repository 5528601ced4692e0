package verifier

import (
	"context"
	"sync"
)

// gate is open for the epoch of the registry's log for which the values of all objects are adopted.
type gate struct {
	mu     sync.Mutex
	epoch  string        // guarded by mu: while the gate is open
	isOpen bool          // guarded by mu
	opened chan struct{} // guarded by mu: closed while the gate is open
}

func newGate() *gate { return &gate{opened: make(chan struct{})} }

// wait waits until the gate is open and returns the epoch, or the error of ctx.
func (g *gate) wait(ctx context.Context) (epoch string, err error) {
	for {
		epoch, open, opened := g.state()
		if open {
			return epoch, nil
		}
		select {
		case <-opened:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

func (g *gate) state() (epoch string, open bool, opened <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.epoch, g.isOpen, g.opened
}

// isOpenFor reports whether the gate is open for an epoch.
func (g *gate) isOpenFor(epoch string) bool {
	now, open, _ := g.state()
	return open && now == epoch
}

// open opens the gate for an epoch.
func (g *gate) open(epoch string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.epoch = epoch
	if !g.isOpen {
		g.isOpen = true
		close(g.opened)
	}
}

// shut closes the gate, and reports whether it was open.
func (g *gate) shut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.isOpen
	if was {
		g.isOpen, g.opened = false, make(chan struct{})
	}
	return was
}
