// Package wake has the signal by which one goroutine tells another one that there is work, such as a
// view that has changed.
package wake

// Signal wakes the goroutine that receives from it. Signals that are sent before it receives are one.
type Signal chan struct{}

// New returns a signal that was not sent.
func New() Signal { return make(Signal, 1) }

// Send sends the signal. It never waits.
func (s Signal) Send() {
	select {
	case s <- struct{}{}:
	default:
	}
}
