package dockertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"portolan.dev/services/kit/kittest"
)

// Engine is a dockerd of the test, with folders of its own. The test can start it several times. It must run
// in a network namespace of the test: a dockerd without a bridge removes docker0, and in the machine's
// namespace docker0 belongs to the machine's engine.
type Engine struct {
	// Socket is the path of its socket.
	Socket string

	t       testing.TB
	program string
	args    []string
}

// NewEngine returns an engine with additional flags of dockerd. It runs when the caller starts its Command.
// NewEngine skips the test without dockerd or without root. The engine has no default bridge, and stores
// images with vfs, which needs nothing of the kernel.
func NewEngine(t testing.TB, flags ...string) *Engine {
	t.Helper()
	program, err := exec.LookPath("dockerd")
	if err != nil {
		t.Skipf("allowed: %v (Debian: docker.io)", err)
	}
	if os.Geteuid() != 0 {
		t.Skip("allowed: an engine of the test needs root")
	}
	dir := shortDir(t)
	config := filepath.Join(dir, "daemon.json") // instead of the machine's
	if err := os.WriteFile(config, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := &Engine{t: t, program: program, Socket: filepath.Join(dir, "docker.sock")}
	e.args = append([]string{"--config-file", config, "--host", e.Host(), "--data-root", filepath.Join(dir, "data"),
		"--exec-root", filepath.Join(dir, "exec"), "--pidfile", filepath.Join(dir, "pid"), "--storage-driver", "vfs", "--bridge", "none"}, flags...)
	return e
}

// shortDir returns a folder with a short path, because the path of a socket has at most 108 bytes.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "engine-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		unmount(dir)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// unmount unmounts the mounts that an engine leaves behind: the namespace of the host's network and, if the
// engine was killed, the mounts of its containers.
func unmount(dir string) {
	mounts, _ := os.ReadFile("/proc/self/mounts") // without the file there are no mounts to remove
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[1], dir+"/") {
			_ = exec.Command("umount", "-l", fields[1]).Run() // the removal of the folder fails if a mount is left
		}
	}
}

// Host returns the address of the engine as the docker CLI wants it.
func (e *Engine) Host() string { return "unix://" + e.Socket }

// Command returns a command that runs the engine. The caller runs it in a network namespace of the test.
func (e *Engine) Command() *exec.Cmd {
	// A killed engine leaves the PID file of its containerd, which ends with it. The next engine would take
	// a process with this PID for a containerd that runs.
	_ = os.Remove(filepath.Join(filepath.Dir(e.Socket), "exec", "containerd", "containerd.pid"))
	return exec.Command("sh", append([]string{"-c", guarded, e.program}, e.args...)...)
}

// guarded is a shell program that executes its arguments, unless the namespace has a docker0 that the engine
// would remove.
const guarded = `if grep -q docker0: /proc/self/net/dev; then echo "docker0 belongs to another engine: use a namespace" >&2; exit 1; fi; exec "$0" "$@"`

// Await waits until the engine answers.
func (e *Engine) Await() {
	e.t.Helper()
	kittest.Eventually(e.t, "the engine", func() error {
		_, err := empty(e.t, e.Host()).Try("version")
		return err
	})
}

// Lab returns a lab with networks at the engine.
func (e *Engine) Lab(networks ...string) *Lab {
	e.t.Helper()
	return open(e.t, e.Host(), networks)
}
