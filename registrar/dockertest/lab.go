package dockertest

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// MachineSocket is the path of the socket of the machine's engine.
const MachineSocket = "/var/run/docker.sock"

// Port is the port that the image of all containers exposes.
const Port = 8000

// Lab is the image, the containers and the networks of one test at an engine. They are removed at the end of
// the test. Its methods are safe for concurrent use.
type Lab struct {
	t testing.TB
	// Mark begins all names. It is also the namespace of the containers that Run starts.
	Mark string
	// Networks are the names of the networks.
	Networks []string
	// Stops counts running commands that end with their container. Remove waits for them.
	Stops sync.WaitGroup

	host  string // of the engine, such as unix:///run/docker.sock; empty: the machine's
	image string

	mu         sync.Mutex
	containers []string // guarded by mu: the names of all containers, removed ones too
}

// New returns a lab with networks at the machine's engine. It skips the test if there is no engine or no
// static busybox.
func New(t testing.TB, networks ...string) *Lab {
	t.Helper()
	if out, err := exec.Command("docker", "version").CombinedOutput(); err != nil {
		t.Skipf("allowed: no Docker engine here: %v: %s", err, out)
	}
	return open(t, "", networks)
}

// open returns a lab with networks at an engine, and builds its image.
func open(t testing.TB, host string, networks []string) *Lab {
	t.Helper()
	l := empty(t, host)
	l.image = l.Mark
	l.Docker("build", "-q", "-t", l.image, buildContext(t))
	t.Cleanup(func() { _, _ = l.Try("rmi", "-f", l.image) })
	t.Cleanup(l.Remove)
	for _, network := range networks {
		l.Docker("network", "create", l.Name(network))
		l.Networks = append(l.Networks, l.Name(network))
	}
	return l
}

func empty(t testing.TB, host string) *Lab {
	return &Lab{t: t, host: host, Mark: fmt.Sprintf("portolan-%x", time.Now().UnixNano()%(1<<40))}
}

// Part returns a lab with the same image for a subtest.
func (l *Lab) Part(t testing.TB) *Lab {
	p := empty(t, l.host)
	p.image = l.image
	t.Cleanup(p.Remove)
	return p
}

// Name returns the name of a container or network of the lab.
func (l *Lab) Name(of string) string { return l.Mark + "-" + of }

// Short returns the name of a container without the mark.
func (l *Lab) Short(name string) string {
	return strings.TrimPrefix(strings.TrimPrefix(name, "/"), l.Mark+"-")
}

// Containers returns the full names of all containers that were started, including removed ones.
func (l *Lab) Containers() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.containers)
}

// Docker runs a command of the docker CLI that must succeed, and returns its output.
func (l *Lab) Docker(args ...string) string {
	l.t.Helper()
	out, err := l.Try(args...)
	if err != nil {
		l.t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// Try runs a command of the docker CLI.
func (l *Lab) Try(args ...string) (string, error) {
	out, err := l.command(args...).CombinedOutput()
	return string(out), err
}

func (l *Lab) command(args ...string) *exec.Cmd {
	cmd := exec.Command("docker", args...)
	// The builder without BuildKit needs no plugin of the client.
	cmd.Env = append(os.Environ(), "DOCKER_BUILDKIT=0")
	if l.host != "" {
		cmd.Env = append(cmd.Env, "DOCKER_HOST="+l.host)
	}
	return cmd
}

// Lasting returns a shell program that runs until SIGTERM, then runs the command end and exits. It ignores
// SIGHUP.
func Lasting(end string) string {
	return fmt.Sprintf(`trap "%s; exit 0" TERM; trap "" HUP; while :; do busybox sleep 1000 & wait; done`, end)
}

// Serving returns a shell program that serves a page at [Port] until SIGTERM, see Lasting.
func Serving(page, end string) string {
	return fmt.Sprintf("busybox mkdir /www; echo %s >/www/index.html; busybox httpd -p %d -h /www; %s", page, Port, Lasting(end))
}

// Run starts a container of the service web with options of docker run. Its program ends the time linger
// after SIGTERM. A failure fails the test, which goes on.
func (l *Lab) Run(name, linger string, options ...string) {
	l.t.Helper()
	l.Start(name, Lasting("busybox sleep "+linger), append(l.Web(), options...)...)
}

// Web returns the options of docker run for a container of the service web.
func (l *Lab) Web() []string {
	return []string{"--label", "portolan.service=web", "--label", "portolan.namespace=" + l.Mark}
}

// Start starts a container with options of docker run, which runs a shell program, and returns its ID. A
// failure fails the test, which goes on.
func (l *Lab) Start(name, program string, options ...string) string {
	l.t.Helper()
	l.mu.Lock()
	l.containers = append(l.containers, l.Name(name))
	l.mu.Unlock()
	args := append([]string{"run", "-d", "--name", l.Name(name)}, options...)
	out, err := l.Try(append(args, l.image, "sh", "-c", program)...)
	if err != nil {
		l.t.Errorf("docker run %s: %v\n%s", name, err, out)
	}
	return strings.TrimSpace(out)
}

// Remove removes the containers and networks. The engine must run. A test that restarts its engine therefore
// registers Remove as a cleanup again after each start.
func (l *Lab) Remove() {
	for _, container := range l.Containers() {
		_, _ = l.Try("rm", "-f", container)
	}
	for _, network := range l.Networks {
		_, _ = l.Try("network", "rm", network)
	}
	l.Stops.Wait()
}
