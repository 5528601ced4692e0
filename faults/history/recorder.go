package history

import (
	"slices"
	"sync"
	"time"
)

// Recorder collects the records of a run. All methods are safe for concurrent use.
type Recorder struct {
	mu      sync.Mutex
	h       History
	watches map[string]int // index in h.Watches, by watcher
}

// NewRecorder returns a recorder without records.
func NewRecorder() *Recorder { return &Recorder{watches: map[string]int{}} }

// BeginCall records a call that begins now. The returned function records its end, and fill sets
// its outcome.
func (r *Recorder) BeginCall(c Call) (end func(fill func(*Call))) {
	r.mu.Lock()
	defer r.mu.Unlock()
	index := len(r.h.Calls)
	c.Began = time.Now()
	r.h.Calls = append(r.h.Calls, c)
	return func(fill func(*Call)) {
		ended := time.Now()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.h.Calls[index].Ended = ended
		fill(&r.h.Calls[index])
	}
}

// NoteUnknownWrite records that a write has ended now, with an unknown outcome. It is not among the calls.
func (r *Recorder) NoteUnknownWrite() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.UnrecordedUnknownEnd = time.Now()
}

// BeginFault records a fault that begins now. The returned function records its end.
func (r *Recorder) BeginFault(description string) (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	index := len(r.h.Faults)
	r.h.Faults = append(r.h.Faults, Fault{Description: description, Began: time.Now()})
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.h.Faults[index].Ended = time.Now()
	}
}

// BeginWatch records the start of a watcher of the given kinds. No kinds means all kinds.
func (r *Recorder) BeginWatch(watcher string, kinds []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watches[watcher] = len(r.h.Watches)
	r.h.Watches = append(r.h.Watches, Watch{Watcher: watcher, Kinds: kinds})
}

// AddBatch records a batch that a watcher received.
func (r *Recorder) AddBatch(watcher string, b Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	watch := &r.h.Watches[r.watches[watcher]]
	watch.Batches = append(watch.Batches, b)
}

// EndWatch records that a watcher has stopped.
func (r *Recorder) EndWatch(watcher string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Watches[r.watches[watcher]].Stopped = true
}

// AddDNSAnswer records an answer of a name server.
func (r *Recorder) AddDNSAnswer(a DNSAnswer) { appendRecord(r, &r.h.DNSAnswers, a) }

// AddConnection records a connection. The returned function updates the record.
func (r *Recorder) AddConnection(c Connection) (update func(fill func(*Connection))) {
	r.mu.Lock()
	defer r.mu.Unlock()
	index := len(r.h.Connections)
	r.h.Connections = append(r.h.Connections, c)
	return func(fill func(*Connection)) {
		r.mu.Lock()
		defer r.mu.Unlock()
		fill(&r.h.Connections[index])
	}
}

// AddProbe records a short connection.
func (r *Recorder) AddProbe(p Probe) { appendRecord(r, &r.h.Probes, p) }

// AddAllocationList records a list of allocated values.
func (r *Recorder) AddAllocationList(a AllocationList) { appendRecord(r, &r.h.AllocationLists, a) }

// AddLogLine records a line of a daemon's log.
func (r *Recorder) AddLogLine(l LogLine) { appendRecord(r, &r.h.LogLines, l) }

func appendRecord[T any](r *Recorder, list *[]T, element T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*list = append(*list, element)
}

// History returns a copy of the current records, without the registry's log.
func (r *Recorder) History() *History {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.h
	h.Calls, h.DNSAnswers, h.Connections = slices.Clone(h.Calls), slices.Clone(h.DNSAnswers), slices.Clone(h.Connections)
	h.Probes, h.AllocationLists, h.LogLines = slices.Clone(h.Probes), slices.Clone(h.AllocationLists), slices.Clone(h.LogLines)
	h.Watches, h.Faults = slices.Clone(h.Watches), slices.Clone(h.Faults)
	return &h
}
