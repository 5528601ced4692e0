package linelog

import (
	"sync"
	"time"

	"portolan.dev/services/kit/wake"
)

// CloseTimeout is the longest time that Close waits for a disk that does not answer.
const CloseTimeout = 5 * time.Second

// Writer tells one goroutine when to write the lines that wait in a log. Its methods are safe for
// concurrent use.
type Writer struct {
	gatherTime time.Duration
	waiting    wake.Signal
	hurry      wake.Signal
	closing    chan struct{}
	done       chan struct{}
	once       sync.Once
}

// NewWriter returns a writer. It gathers lines for gatherTime after the first one, so that one write
// has many of them.
func NewWriter(gatherTime time.Duration) *Writer {
	return &Writer{gatherTime: gatherTime, waiting: wake.New(), hurry: wake.New(), closing: make(chan struct{}), done: make(chan struct{})}
}

// Wake tells the writer that a line waits. It never waits.
func (w *Writer) Wake() { w.waiting.Send() }

// Hurry ends the gathering of lines. It never waits.
func (w *Writer) Hurry() { w.hurry.Send() }

// Run calls flush whenever lines wait, and tick for each value of ticks. After Close it calls flush
// for the last time, then end, and returns. It may be called once.
func (w *Writer) Run(flush func(), ticks <-chan time.Time, tick, end func()) {
	defer close(w.done)
	for {
		select {
		case <-w.waiting:
			w.gather()
			flush()
		case <-ticks:
			tick()
		case <-w.closing:
			flush()
			end()
			return
		}
	}
}

// gather waits for more lines.
func (w *Writer) gather() {
	enough := time.NewTimer(w.gatherTime)
	defer enough.Stop()
	select {
	case <-enough.C:
	case <-w.hurry:
	case <-w.closing:
	}
}

// Close ends Run. It waits for the end for at most CloseTimeout, and reports whether it came.
func (w *Writer) Close() bool {
	w.once.Do(func() { close(w.closing) })
	timeout := time.NewTimer(CloseTimeout)
	defer timeout.Stop()
	select {
	case <-w.done:
		return true
	case <-timeout.C:
		return false
	}
}
