package kittest

import (
	"testing"
	"time"
)

// patience bounds waiting in tests. It is far beyond what anything takes: a test
// fails because something did not happen, never because it was slow.
const patience = 60 * time.Second

// Eventually calls cond until it returns nil, and fails the test with its last
// error when that takes unreasonably long. what says what is being waited for.
func Eventually(t testing.TB, what string, cond func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		err := cond()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s: %v", patience, what, err)
		}
		time.Sleep(pause)
	}
}

// Receive returns the next value of ch, and fails the test when none comes or
// ch is closed.
func Receive[T any](t testing.TB, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v, ok := <-ch:
		if !ok {
			t.Fatalf("waiting for %s: channel closed", what)
		}
		return v
	case <-time.After(patience):
		t.Fatalf("waited %s for %s", patience, what)
	}
	panic("unreachable")
}
