package proxy_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestIdleConnectionsHoldNoPipes checks that connections that have moved many bytes, and wait for
// more, have given back the pipes of their splices.
func TestIdleConnectionsHoldNoPipes(t *testing.T) {
	const connections, size = 30, 1 << 20
	for range connections {
		l := connect(t)
		go l.client.Write(make([]byte, size)) //nolint:errcheck // the backend misses what is lost
		if _, err := io.CopyN(io.Discard, l.backend, size); err != nil {
			t.Fatal(err)
		}
	}
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	pipes := 0
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, "pipe:") {
			pipes++
		}
	}
	if pipes > connections {
		t.Errorf("%d ends of pipes are open for %d idle connections", pipes, connections)
	}
}
