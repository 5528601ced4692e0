package kittest

import (
	"io"
	"log/slog"
	"sync"
	"testing"
)

// Logger returns a logger whose lines belong to the test, from debugging level
// on. Lines that come after the end of the test are dropped: client libraries
// have callbacks that nobody can wait for, and writing to a test that has ended
// is a panic.
func Logger(t testing.TB) *slog.Logger {
	w := &testWriter{to: t.Output()}
	t.Cleanup(w.close)
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

type testWriter struct {
	mu sync.Mutex
	to io.Writer // nil when the test has ended
}

// Write implements io.Writer.
func (w *testWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.to == nil {
		return len(p), nil
	}
	return w.to.Write(p)
}

func (w *testWriter) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.to = nil
}
