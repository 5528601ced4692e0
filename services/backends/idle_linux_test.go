package backends_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"portolan.dev/services/kit/kittest"
)

// TestIdleConnectionsHoldNoPipes checks that connections that have moved many bytes, and wait for
// more, have given back the pipes of their splices, so that the garbage collector closes them.
func TestIdleConnectionsHoldNoPipes(t *testing.T) {
	before := pipes(t)
	for range 10 {
		const size = 1 << 20
		l := connect(t)
		go l.client.Write(make([]byte, size)) //nolint:errcheck // the backend notices missing bytes
		if _, err := io.CopyN(io.Discard, l.backend, size); err != nil {
			t.Fatal(err)
		}
	}
	kittest.Eventually(t, "the pipes to be closed", func() error {
		runtime.GC()
		if n := pipes(t); n > before {
			return fmt.Errorf("%d ends of pipes, %d before", n, before)
		}
		return nil
	})
}

// pipes returns the number of ends of pipes that this process has.
func pipes(t *testing.T) (n int) {
	t.Helper()
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, "pipe:") {
			n++
		}
	}
	return n
}
