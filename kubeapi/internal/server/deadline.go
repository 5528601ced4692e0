package server

import (
	"net/http"
	"time"
)

// watchDeadline is the write deadline of a watch. With HTTP/2, moving the deadline costs as much as a write,
// so it is moved at most once in a quarter of the timeout. A client therefore has at least three quarters of the
// timeout to read. The deadline is cleared after a quarter without a write, because an HTTP/2 deadline
// resets the stream even if nothing is being written.
type watchDeadline struct {
	controller *http.ResponseController
	timeout    time.Duration
	moved      time.Time // zero: there is none
	quiet      *time.Timer
}

// newWatchDeadline returns the deadline of an answer. The caller must call stop at the end.
func newWatchDeadline(w http.ResponseWriter, timeout time.Duration) *watchDeadline {
	return &watchDeadline{controller: http.NewResponseController(w), timeout: timeout, quiet: time.NewTimer(timeout / 4)}
}

// extend moves the deadline before a write, if it is due.
func (d *watchDeadline) extend() {
	now := time.Now()
	d.quiet.Reset(d.timeout / 4)
	if now.Sub(d.moved) >= d.timeout/4 {
		d.moved = now
		_ = d.controller.SetWriteDeadline(now.Add(d.timeout)) // a connection without deadlines has none
	}
}

// clear removes the deadline after the timer quiet has fired. Nothing may be being written.
func (d *watchDeadline) clear() {
	d.moved = time.Time{}
	_ = d.controller.SetWriteDeadline(time.Time{}) // as above
}

func (d *watchDeadline) stop() { d.quiet.Stop() }
