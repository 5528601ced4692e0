package gc

import (
	"sync"
	"time"

	"portolan.dev/services/object"
)

// graceTimers holds a timer for every object with a running grace period.
type graceTimers struct {
	mu      sync.Mutex
	stopped bool
	timers  map[object.Key]*time.Timer
}

func newGraces() *graceTimers { return &graceTimers{timers: map[object.Key]*time.Timer{}} }

// start calls over at the given time, or at once if that has passed. A later call for the same
// object replaces an earlier one.
func (g *graceTimers) start(key object.Key, ends time.Time, over func()) {
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
func (g *graceTimers) cancel(key object.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if timer := g.timers[key]; timer != nil {
		timer.Stop()
		delete(g.timers, key)
	}
}

// stop stops all timers. No timer is set afterwards.
func (g *graceTimers) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopped = true
	for _, timer := range g.timers {
		timer.Stop()
	}
	clear(g.timers)
}
