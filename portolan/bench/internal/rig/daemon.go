package rig

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"portolan.dev/services/kit/yardstick"
)

// Daemon is a running daemon.
type Daemon struct {
	// The addresses of its gRPC API, its metrics, and its profiles.
	Addr, HTTP, Debug string
	// DNS are the addresses at which a name server answers.
	DNS []string

	cmd     *exec.Cmd
	stopped atomic.Bool
}

// StartDaemon starts one of the built programs and waits until it listens. It is stopped at the end of the
// run, unless Stop has done so before.
func (r *Rig) StartDaemon(ctx context.Context, name string, args ...string) (*Daemon, error) {
	path, err := filepath.Abs(filepath.Join(r.Bin, name))
	if err != nil {
		return nil, err
	}
	args = append([]string{
		"-addr", "127.0.0.1:0", "-http-addr", "127.0.0.1:0", "-debug-addr", "127.0.0.1:0", "-log-format", "json", "-nats-url", r.NATS.URL,
	}, args...)
	d := &Daemon{cmd: exec.CommandContext(ctx, path, args...)} // #nosec G204 -- the programs of this repository
	d.cmd.Dir = r.Dir
	stderr, err := d.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	r.Defer(d.Stop)
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	last := ""
	for d.Addr == "" && lines.Scan() {
		last = lines.Text()
		d.readLine(name, lines.Bytes())
	}
	if d.Addr == "" {
		return nil, fmt.Errorf("%s %s does not start: %s", name, strings.Join(args, " "), last)
	}
	go func() {
		forward(stderr)
		if !d.stopped.Load() {
			r.fail(fmt.Errorf("%s has ended", name))
		}
	}()
	return d, nil
}

// readLine takes the addresses from a line of the log. Other lines do not matter.
func (d *Daemon) readLine(name string, text []byte) {
	var line struct {
		Msg, Addr, HTTP, Debug string
		DNS                    []string
	}
	if json.Unmarshal(text, &line) != nil {
		return
	}
	switch line.Msg {
	case "starting":
		d.HTTP, d.Debug = line.HTTP, line.Debug
	case name + " listens", "running": // the second is a node agent's
		d.Addr, d.DNS = line.Addr, line.DNS
	}
}

// forward copies the warnings and errors of a daemon's log to the standard error.
func forward(log io.Reader) {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if strings.Contains(lines.Text(), `"level":"WARN"`) || strings.Contains(lines.Text(), `"level":"ERROR"`) {
			fmt.Fprintln(os.Stderr, lines.Text())
		}
	}
	_, _ = io.Copy(io.Discard, log)
}

// Stop ends the daemon by SIGTERM and waits for it.
func (d *Daemon) Stop() {
	d.stopped.Store(true)
	stop(d.cmd, syscall.SIGTERM)
}

// CPU returns the CPU time that the daemon has used.
func (d *Daemon) CPU() time.Duration { return yardstick.CPU(d.cmd.Process.Pid) }

// Resident returns the resident memory of the daemon, in bytes.
func (d *Daemon) Resident() int64 {
	now, _ := yardstick.Memory(d.cmd.Process.Pid)
	return now
}

// Metrics returns the daemon's metrics by series, such as name{label="value"}.
func (d *Daemon) Metrics(ctx context.Context) (map[string]float64, error) {
	text, err := read(ctx, "http://"+d.HTTP+"/metrics")
	if err != nil {
		return nil, err
	}
	values := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if value, err := strconv.ParseFloat(line[at+1:], 64); at > 0 && err == nil {
			values[line[:at]] = value
		}
	}
	return values, nil
}

// profile writes the CPU profile of the next seconds to a file.
func (d *Daemon) profile(ctx context.Context, seconds int, path string) error {
	content, err := read(ctx, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", d.Debug, seconds))
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}

// read returns the body of a server's answer to a GET.
func read(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, answer.Status)
	}
	return io.ReadAll(answer.Body)
}

// Collect makes the daemon collect its garbage.
func (d *Daemon) Collect(ctx context.Context) error {
	_, err := read(ctx, fmt.Sprintf("http://%s/debug/pprof/heap?gc=1", d.Debug))
	return err
}
