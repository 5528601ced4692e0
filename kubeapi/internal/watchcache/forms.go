package watchcache

import "sync"

const (
	// maxForms is the memory of all encoded forms together, in bytes. It holds 30,000 services of ordinary
	// size in one form, or 60 seconds of 500 changes a second. A watch that is further behind must encode the
	// events again, which takes ten times as long. With a small limit a slow watch would therefore become even
	// slower.
	maxForms = 64 << 20
	// formOverhead is the memory that a form takes besides its bytes, mostly for the objects of an event
	// that has left the cache.
	formOverhead = 1 << 10
)

// forms limits the memory of the encoded forms of all events. Above the limit the oldest forms are dropped.
type forms struct {
	limit int

	mu    sync.Mutex
	bytes int        // guarded by mu
	queue []heldForm // guarded by mu: oldest first
}

// heldForm is a form that an event holds.
type heldForm struct {
	event *Event
	name  string
	bytes int
}

// add counts a form of an event, and drops the oldest forms above the limit. Each form is counted and
// dropped once. The caller must not hold the lock of an event.
func (f *forms) add(e *Event, name string, size int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	held := heldForm{event: e, name: name, bytes: size + formOverhead}
	f.queue = append(f.queue, held)
	f.bytes += held.bytes
	for f.bytes > f.limit {
		oldest := f.queue[0]
		f.queue[0] = heldForm{}
		f.queue = f.queue[1:]
		f.bytes -= oldest.bytes
		oldest.event.forget(oldest.name)
	}
}
