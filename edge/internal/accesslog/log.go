package accesslog

import (
	"sync"
	"time"
)

const (
	// maxWaiting and maxWaitingTotal are the largest numbers of bytes that wait for the disk or are
	// being written, for one log and for all.
	maxWaiting      = 4 << 20
	maxWaitingTotal = 64 << 20
	// hurryAt is the number of waiting bytes of a log from which they are written at once.
	hurryAt = maxWaiting / 8
	// keptLine and keptChunk are the capacities of the largest buffers that are used again, so that a burst
	// does not take memory forever.
	keptLine  = 16 << 10
	keptChunk = 2 * hurryAt
)

// Log is the access log of one service. Its methods are safe for concurrent use. A nil Log records
// nothing.
type Log struct {
	logs   *Logs
	target Target
	json   jsonFrame
	name   string // of the balancer
	file   *file  // of the present interval, or nil. Only the writer uses it.

	mu      sync.Mutex
	waiting []chunk // guarded by mu
	bytes   int     // waiting or being written. Guarded by mu.
	queued  bool    // the log is in the writer's queue. Guarded by mu.
	closed  bool    // guarded by mu
}

// chunk has the waiting lines of one interval.
type chunk struct {
	start time.Time
	text  []byte
	lines int
}

// Record adds a line. It never waits for the disk. If the line cannot be kept, it is counted as
// dropped.
func (l *Log) Record(r *Record) {
	if l == nil {
		return
	}
	buffer, _ := buffers.Get().(*[]byte)
	line := l.appendLine((*buffer)[:0], r)
	l.enqueue(line, time.Now())
	if cap(line) <= keptLine {
		*buffer = line
	}
	buffers.Put(buffer)
}

// buffers holds buffers in which lines are built, so that building needs no lock. chunkBuffers holds the buffers
// of chunks. All logs share them, so that a log without records needs no memory for them.
var (
	buffers      = sync.Pool{New: func() any { return new([]byte) }}
	chunkBuffers = sync.Pool{New: func() any { return new([]byte) }}
)

func (l *Log) appendLine(line []byte, r *Record) []byte {
	if l.target.Format == JSON {
		return l.json.append(line, r)
	}
	return appendELB(line, l.name, r)
}

func (l *Log) enqueue(line []byte, now time.Time) {
	l.mu.Lock()
	if l.closed || l.bytes+len(line) > maxWaiting || !l.logs.reserve(len(line)) {
		l.mu.Unlock()
		l.logs.queueFull()
		return
	}
	l.bytes += len(line)
	c := l.chunk(now)
	c.text = append(c.text, line...)
	c.lines++
	first, hurry := !l.queued, len(c.text) >= hurryAt
	l.queued = true
	l.mu.Unlock()
	if first {
		l.logs.enqueue(l)
	}
	if hurry {
		l.logs.writer.Hurry()
	}
}

// chunk returns the chunk for the lines of a time. The caller holds mu.
func (l *Log) chunk(now time.Time) *chunk {
	if n := len(l.waiting); n > 0 {
		last := &l.waiting[n-1]
		if passed := now.Sub(last.start); passed >= 0 && passed < l.target.Interval {
			return last
		}
	}
	buffer, _ := chunkBuffers.Get().(*[]byte)
	l.waiting = append(l.waiting, chunk{start: now.UTC().Truncate(l.target.Interval), text: (*buffer)[:0]})
	return &l.waiting[len(l.waiting)-1]
}

// take returns the lines that wait, and whether the log is closed, so that no more will come.
func (l *Log) take() (waiting []chunk, closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting, l.waiting, l.queued = l.waiting, nil, false
	return waiting, l.closed
}

// release makes room for the lines of a chunk that has been written.
func (l *Log) release(c chunk) {
	l.logs.release(len(c.text))
	l.mu.Lock()
	l.bytes -= len(c.text)
	l.mu.Unlock()
	if cap(c.text) <= keptChunk {
		chunkBuffers.Put(&c.text)
	}
}

// Close ends the log. The lines that wait are written, and the file gets its final name, soon after
// Close returns. A log of the same service that is opened afterwards begins a new file. Lines that
// are recorded later are dropped.
func (l *Log) Close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	first := !l.closed && !l.queued
	l.closed, l.queued = true, true
	l.mu.Unlock()
	if first {
		l.logs.enqueue(l)
	}
}
