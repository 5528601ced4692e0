package kittest

import (
	"io"
	"log/slog"
	"sync"
	"testing"
)

// Logger returns a logger that writes to the test's output, at level debug. Lines after the end of
// the test are dropped, because client libraries may call back later than a test can wait for, and
// writing to the output of an ended test panics.
func Logger(t testing.TB) *slog.Logger {
	w := &testWriter{to: t.Output()}
	t.Cleanup(w.close)
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

type testWriter struct {
	mu sync.Mutex
	to io.Writer // nil after the test has ended
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
