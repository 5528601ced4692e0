package daemon_test

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/kittest"
)

// supervisor receives a daemon's notifications to systemd.
type supervisor struct{ conn *net.UnixConn }

func supervise(t *testing.T, watchdog string) *supervisor {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", watchdog)
	return &supervisor{conn}
}

// hear reads notifications until one contains want, and returns all that it has read.
func (s *supervisor) hear(t *testing.T, want string) string {
	t.Helper()
	if err := s.conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	var heard strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(heard.String(), want) {
		n, err := s.conn.Read(buf)
		if err != nil {
			t.Fatalf("waiting for %q, heard %q: %v", want, heard.String(), err)
		}
		heard.WriteString(string(buf[:n]) + "\n")
	}
	return heard.String()
}

func TestTellsSystemd(t *testing.T) {
	s := supervise(t, "100000")
	c := start(t)
	s.hear(t, "READY=1\nSTATUS=ready")
	s.hear(t, "WATCHDOG=1")
	s.hear(t, "WATCHDOG=1")
	stop(t, c)
	s.hear(t, "STOPPING=1")
}

func TestNotUpWhileBeingBuilt(t *testing.T) {
	s := supervise(t, "100000")
	c := start(t, "-behave=wait")
	if heard := s.hear(t, "WATCHDOG=1"); strings.Contains(heard, "READY") || !strings.Contains(heard, "STATUS=not ready: start: starting") {
		t.Errorf("said to be up while being built: %q", heard)
	}
	stop(t, c)
}

func TestReadyAsksTheRunningDaemon(t *testing.T) {
	c := start(t)
	addr := c.event(t, "starting")["http"].(string)
	c.event(t, "running")
	if code, rest := start(t, "ready", "-http-addr="+addr).end(t); code != app.ExitOK {
		t.Errorf("exit code %d, %s", code, rest)
	}
	stop(t, c)

	waiting := start(t, "-behave=wait")
	addr = waiting.event(t, "starting")["http"].(string)
	if code, rest := start(t, "ready", "-http-addr="+addr).end(t); code != app.ExitError || !strings.Contains(rest, "not ready: start: starting") {
		t.Errorf("exit code %d, %s", code, rest)
	}
	stop(t, waiting)

	free := kittest.Listen(t)
	addr = free.Addr().String()
	free.Close()
	if code, rest := start(t, "ready", "-http-addr="+addr).end(t); code != app.ExitError || !strings.Contains(rest, "not running") {
		t.Errorf("exit code %d, %s", code, rest)
	}
	if code, rest := start(t, "ready", "-http-addr=127.0.0.1:0").end(t); code != app.ExitError || !strings.Contains(rest, "name a port") {
		t.Errorf("exit code %d, %s", code, rest)
	}
}
