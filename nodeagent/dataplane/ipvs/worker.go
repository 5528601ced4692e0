package ipvs

import "time"

// worker runs jobs on a goroutine of its own, one after the other. If the kernel does not return
// from a call, only that goroutine hangs.
type worker struct {
	jobs  chan func()   // closed after the last job
	ended chan struct{} // closed when the goroutine has ended
}

// newWorker starts the goroutine. One job can wait while another one runs.
func newWorker() *worker {
	w := &worker{jobs: make(chan func(), 1), ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		for job := range w.jobs {
			job()
		}
	}()
	return w
}

// waitFor calls interrupt, which may hang too, and waits for the goroutine to end, but not for
// longer than the limit.
func (w *worker) waitFor(interrupt func(), limit time.Duration) {
	go interrupt()
	select {
	case <-w.ended:
	case <-time.After(limit):
	}
}

// hasEnded reports whether the goroutine has ended.
func (w *worker) hasEnded() bool {
	select {
	case <-w.ended:
		return true
	default:
		return false
	}
}
