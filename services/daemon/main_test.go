package daemon_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/kittest"
)

// asDaemon is the environment variable that makes the test binary run as the daemon under test,
// because Main can only be tested in its own process.
const asDaemon = "PORTOLAN_TEST_DAEMON"

func TestMain(m *testing.M) {
	if name := os.Getenv(asDaemon); name != "" {
		os.Exit(daemon.Main(name, newSample))
	}
	os.Exit(m.Run())
}

// config is the configuration of a daemon with a flag that selects its behavior.
type config struct {
	daemon.Common `default:"addr=127.0.0.1:7400 nats-prefix=sample"`
	Behave        string `flag:"behave" default:"run" usage:"run, refuse, end, fail, chatter or wait"`
}

type sample struct {
	cfg  config
	host app.Host
}

func newSample(ctx context.Context, cfg config, host app.Host) (*sample, error) {
	switch cfg.Behave {
	case "refuse":
		return nil, errors.New("no store")
	case "wait":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &sample{cfg, host}, nil
}

func (s *sample) Run(ctx context.Context) error {
	switch s.cfg.Behave {
	case "end":
		return nil
	case "fail":
		return errors.New("broken")
	case "chatter":
		for app.Pause(ctx, time.Millisecond) {
			s.host.Log.Debug("chatter")
		}
		return nil
	}
	s.host.Log.Info("running", "addr", s.cfg.Addr)
	<-ctx.Done()
	return nil
}

// child is a running sample daemon.
type child struct {
	cmd    *exec.Cmd
	stderr *bufio.Scanner
}

func start(t *testing.T, args ...string) *child {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), asDaemon+"="+cmp.Or(os.Getenv(asDaemon), "sample"))
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &child{cmd, bufio.NewScanner(stderr)}
}

// event reads the log up to the event and returns its attributes.
func (c *child) event(t *testing.T, msg string) map[string]any {
	t.Helper()
	for c.stderr.Scan() {
		var line map[string]any
		if err := json.Unmarshal(c.stderr.Bytes(), &line); err != nil {
			t.Fatalf("not a log line: %s", c.stderr.Text())
		}
		if line["msg"] == msg {
			return line
		}
	}
	t.Fatalf("the log ended before %q", msg)
	return nil
}

// end reads the log to its end and waits for the process. It returns the exit code and the lines read.
func (c *child) end(t *testing.T) (int, string) {
	t.Helper()
	var rest strings.Builder
	for c.stderr.Scan() {
		rest.WriteString(c.stderr.Text() + "\n")
	}
	_ = c.cmd.Wait() // the state has the exit code
	return c.cmd.ProcessState.ExitCode(), rest.String()
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestDaemonServesAndStops(t *testing.T) {
	c := start(t)
	base := fmt.Sprint("http://", c.event(t, "starting")["http"])
	running := c.event(t, "running")
	if running["daemon"] != "sample" || running["addr"] != "127.0.0.1:7400" {
		t.Errorf("log line %v", running)
	}
	for path, want := range map[string]string{"/readyz": "ok\n", "/healthz": "ok\n", "/metrics": "portolan_build_info"} {
		if code, body := get(t, base+path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %.100q", path, code, body)
		}
	}
	for _, path := range []string{"/debug/loglevel", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/vars"} {
		if code, body := get(t, base+path); code != http.StatusNotFound {
			t.Errorf("%s: %d %.100q", path, code, body)
		}
	}
	stop(t, c)
}

// TestLogLevelAtRunTime checks that a request to /debug/loglevel changes the log level of a running
// daemon.
func TestLogLevelAtRunTime(t *testing.T) {
	c := start(t, "-behave=chatter", "-debug-addr=127.0.0.1:0")
	url := fmt.Sprint("http://", c.event(t, "starting")["debug"], "/debug/loglevel")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, strings.NewReader("debug"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("status %s", resp.Status)
	}
	c.event(t, "chatter") // not logged at the initial level
	stop(t, c)
}

func TestNotReadyWhileBeingBuilt(t *testing.T) {
	c := start(t, "-behave=wait")
	base := fmt.Sprint("http://", c.event(t, "starting")["http"])
	if code, body := get(t, base+"/readyz"); code != http.StatusServiceUnavailable || body != "start: starting\n" {
		t.Errorf("ready: %d %q", code, body)
	}
	if code, _ := get(t, base+"/healthz"); code != http.StatusOK {
		t.Errorf("alive: %d", code)
	}
	stop(t, c)
}

func stop(t *testing.T, c *child) {
	t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, rest := c.end(t); code != app.ExitOK || !strings.Contains(rest, `"msg":"stopped"`) {
		t.Errorf("exit code %d after\n%s", code, rest)
	}
}

func TestExitCodesSayWhatHappened(t *testing.T) {
	taken := kittest.Listen(t).Addr().String()
	tests := []struct {
		arg  string
		code int
		want string
	}{
		{"-behave=refuse", app.ExitError, "sample: no store"},
		{"-behave=fail", app.ExitError, "sample: broken"},
		{"-behave=end", app.ExitError, "sample: ended without being told to"},
		{"-http-addr=" + taken, app.ExitError, "sample: http-addr: listen tcp " + taken + ": bind: address already in use: stop the program that has this port, or choose another one"},
		{"-debug-addr=" + taken, app.ExitError, "sample: debug-addr: listen tcp " + taken + ": bind: address already in use"},
		{"-debug-addr=192.0.2.1:7600", app.ExitConfig, "debug-addr: other machines reach 192.0.2.1:7600"},
		{"-debug-addr=unix:debug.sock", app.ExitConfig, `debug-addr: "unix:debug.sock" is no absolute path of a Unix socket`},
		{"-debug-addr=unix:/nowhere/debug.sock", app.ExitError, "sample: debug-addr: "},
		{"-log-level=loud", app.ExitConfig, `log-level (flag -log-level): "loud" is not a valid level`},
		{"-log-format=xml", app.ExitConfig, `log-format (flag -log-format): "xml" is not a valid format: want auto, json or text`},
		{"-adr=x", app.ExitUsage, "unknown flag -adr; did you mean -addr?"},
		{"-check-config", app.ExitOK, ""},
	}
	for _, tt := range tests {
		code, rest := start(t, tt.arg).end(t)
		if code != tt.code || !strings.Contains(rest, tt.want) {
			t.Errorf("%s: exit code %d and\n%s\nwant %d and %q", tt.arg, code, rest, tt.code, tt.want)
		}
	}
}
