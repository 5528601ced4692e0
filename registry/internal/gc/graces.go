package gc

import (
	"sync"
	"time"

	"portolan.dev/services/object"
)

// graces holds a timer for every object whose grace period is not over.
type graces struct {
	mu      sync.Mutex
	stopped bool
	timers  map[object.Key]*time.Timer
}

func newGraces() *graces { return &graces{timers: map[object.Key]*time.Timer{}} }

// wait calls over at the given time, or at once if that has passed. A later call for the same
// object replaces an earlier one.
func (g *graces) wait(key object.Key, ends time.Time, over func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped {
		return
	}
	if before := g.timers[key]; before != nil {
		before.Stop()
	}
	g.timers[key] = time.AfterFunc(time.Until(ends), over)
}

// cancel stops the timer of a deleted object.
func (g *graces) cancel(key object.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if timer := g.timers[key]; timer != nil {
		timer.Stop()
		delete(g.timers, key)
	}
}

// stop stops all timers. No timer is set afterwards.
func (g *graces) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopped = true
	for _, timer := range g.timers {
		timer.Stop()
	}
	clear(g.timers)
}
