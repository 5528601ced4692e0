package main

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
	"syscall"
	"time"
)

// tick is the unit of CPU time in /proc.
const tick = 10 * time.Millisecond

// stop ends a process and waits for it.
func stop(cmd *exec.Cmd, sig syscall.Signal) {
	_ = cmd.Process.Signal(sig)
	_ = cmd.Wait()
}

// daemon is a running registry or allocator.
type daemon struct {
	cmd        *exec.Cmd
	addr, http string
	dns        []string // of a name server
}

func (d *daemon) cpu() time.Duration { return cpuOf(d.cmd.Process.Pid) }

// startDaemon starts one of the built programs and waits until it listens.
func (b *bench) startDaemon(ctx context.Context, name string, args ...string) (*daemon, error) {
	args = append([]string{"-addr", "127.0.0.1:0", "-http-addr", "127.0.0.1:0", "-log-format", "json", "-nats-url", b.nats}, args...)
	path, err := filepath.Abs(filepath.Join(b.bin, name))
	if err != nil {
		return nil, err
	}
	d := &daemon{cmd: exec.CommandContext(ctx, path, args...)}
	d.cmd.Dir = b.dir
	stderr, err := d.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	for d.addr == "" && lines.Scan() {
		var line struct {
			Msg, Addr, HTTP string
			DNS             []string
		}
		_ = json.Unmarshal(lines.Bytes(), &line) // lines of another form do not matter
		switch line.Msg {
		case "starting":
			d.http = line.HTTP
		case name + " listens", "running": // the second is a node agent's
			d.addr, d.dns = line.Addr, line.DNS
		}
	}
	if d.addr == "" {
		stop(d.cmd, syscall.SIGKILL)
		return nil, fmt.Errorf("%s does not start; try it with %s", name, strings.Join(args, " "))
	}
	go func() { _, _ = io.Copy(io.Discard, stderr) }()
	return d, nil
}

func (d *daemon) stop() { stop(d.cmd, syscall.SIGTERM) }

// cpuOf returns the CPU time that a process has used.
func cpuOf(pid int) time.Duration {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The second field is a name in parentheses that may contain any character.
	fields := strings.Fields(string(content[strings.LastIndexByte(string(content), ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * tick
}

// cpuOfSelf returns the CPU time of this process.
func cpuOfSelf() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// mean reads the mean of a histogram from the daemon's metrics.
func (d *daemon) mean(ctx context.Context, name string) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.http+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	values := map[string]float64{}
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if key, text, ok := strings.Cut(lines.Text(), " "); ok && strings.HasPrefix(key, name) {
			values[key], _ = strconv.ParseFloat(text, 64) // other series may have other values
		}
	}
	return values[name+"_sum"] / values[name+"_count"], nil
}
