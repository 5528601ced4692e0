package server

import (
	"net/http"
	"time"
)

// watchDeadline is the deadline of the writes of a watch. Moving it costs the server of HTTP/2 as much as
// a write, so it is moved at most once in a quarter of the timeout: a client has at least three quarters
// to read. It is cleared when nothing was written for a quarter, because with HTTP/2 a deadline resets the
// stream even if nothing is being written.
type watchDeadline struct {
	controller *http.ResponseController
	timeout    time.Duration
	moved      time.Time // zero: there is none
	quiet      *time.Timer
}

// newWatchDeadline returns the deadline of an answer. stop must be called at the end.
func newWatchDeadline(w http.ResponseWriter, timeout time.Duration) *watchDeadline {
	return &watchDeadline{controller: http.NewResponseController(w), timeout: timeout, quiet: time.NewTimer(timeout / 4)}
}

// extend is called before a write.
func (d *watchDeadline) extend() {
	now := time.Now()
	d.quiet.Reset(d.timeout / 4)
	if now.Sub(d.moved) >= d.timeout/4 {
		d.moved = now
		_ = d.controller.SetWriteDeadline(now.Add(d.timeout)) // a connection without deadlines has none
	}
}

// clear is called when the timer quiet has fired, while nothing is being written.
func (d *watchDeadline) clear() {
	d.moved = time.Time{}
	_ = d.controller.SetWriteDeadline(time.Time{}) // as above
}

func (d *watchDeadline) stop() { d.quiet.Stop() }
