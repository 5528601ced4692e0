package kittest

import (
	"testing"
	"time"
)

// maxWait is the longest wait in tests. It is far longer than any operation takes, so that a test
// fails because something did not happen, never because the machine is slow.
const maxWait = 60 * time.Second

// Eventually calls cond until it returns nil. If that takes longer than maxWait, the test fails with
// cond's last error and the description of the condition.
func Eventually(t testing.TB, what string, cond func() error) {
	t.Helper()
	deadline := time.Now().Add(maxWait)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		err := cond()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s: %v", maxWait, what, err)
		}
		time.Sleep(pause)
	}
}

// Receive returns the next value of ch. The test fails if ch is closed or has no value within
// patience.
func Receive[T any](t testing.TB, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v, ok := <-ch:
		if !ok {
			t.Fatalf("waiting for %s: channel closed", what)
		}
		return v
	case <-time.After(maxWait):
		t.Fatalf("waited %s for %s", maxWait, what)
	}
	panic("unreachable")
}
