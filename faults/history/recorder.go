package history

import (
	"slices"
	"sync"
	"time"
)

// Recorder collects the records of a run. All methods are safe for concurrent use.
type Recorder struct {
	mu       sync.Mutex
	h        History
	readings map[string]int // place in h.Readings by watcher
}

// NewRecorder returns a recorder without records.
func NewRecorder() *Recorder { return &Recorder{readings: map[string]int{}} }

// Begin records a call that begins now. The returned function records its end.
func (r *Recorder) Begin(c Call) (end func(fill func(*Call))) {
	r.mu.Lock()
	defer r.mu.Unlock()
	place := len(r.h.Calls)
	c.Began = time.Now()
	r.h.Calls = append(r.h.Calls, c)
	return func(fill func(*Call)) {
		ended := time.Now()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.h.Calls[place].Ended = ended
		fill(&r.h.Calls[place])
	}
}

// Disturb records a disturbance that begins now. The returned function records its end.
func (r *Recorder) Disturb(what string) (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	place := len(r.h.Disturbances)
	r.h.Disturbances = append(r.h.Disturbances, Disturbance{What: what, Began: time.Now()})
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.h.Disturbances[place].Ended = time.Now()
	}
}

// Watch records the start of a watcher of these kinds; none: of all kinds.
func (r *Recorder) Watch(watcher string, kinds []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.readings[watcher] = len(r.h.Readings)
	r.h.Readings = append(r.h.Readings, Reading{Watcher: watcher, Kinds: kinds})
}

// Batch records a batch that a watcher received.
func (r *Recorder) Batch(watcher string, b Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	reading := &r.h.Readings[r.readings[watcher]]
	reading.Batches = append(reading.Batches, b)
}

// Over records that a watcher reads no further.
func (r *Recorder) Over(watcher string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Readings[r.readings[watcher]].Over = true
}

// Answer records an answer of a name server.
func (r *Recorder) Answer(a Answer) { record(r, &r.h.Answers, a) }

// Connection records a connection. The returned function changes the record.
func (r *Recorder) Connection(c Connection) (change func(fill func(*Connection))) {
	r.mu.Lock()
	defer r.mu.Unlock()
	place := len(r.h.Connections)
	r.h.Connections = append(r.h.Connections, c)
	return func(fill func(*Connection)) {
		r.mu.Lock()
		defer r.mu.Unlock()
		fill(&r.h.Connections[place])
	}
}

// Attempt records a short connection.
func (r *Recorder) Attempt(a Attempt) { record(r, &r.h.Attempts, a) }

// Holdings records a listing of the allocator's values.
func (r *Recorder) Holdings(a Holdings) { record(r, &r.h.Holdings, a) }

// Line records a line of a daemon's log.
func (r *Recorder) Line(l Line) { record(r, &r.h.Lines, l) }

func record[T any](r *Recorder, all *[]T, one T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*all = append(*all, one)
}

// History returns a copy of all records up to now, without a log.
func (r *Recorder) History() *History {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.h
	h.Calls, h.Answers, h.Connections = slices.Clone(h.Calls), slices.Clone(h.Answers), slices.Clone(h.Connections)
	h.Attempts, h.Holdings, h.Lines = slices.Clone(h.Attempts), slices.Clone(h.Holdings), slices.Clone(h.Lines)
	h.Readings, h.Disturbances = slices.Clone(h.Readings), slices.Clone(h.Disturbances)
	return &h
}
