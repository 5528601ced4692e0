package containers

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/registrar/dockertest"
)

// image is the only image of the engine: busybox with all its commands, and curl, which looks names up as
// most programs do, by the C library. The static busybox cannot.
const (
	image      = "tools"
	dockerfile = "FROM scratch\nCOPY . /\nRUN [\"/bin/busybox\", \"--install\", \"-s\", \"/bin\"]\n"
)

// engine is a Docker engine in a namespace.
type engine struct {
	*testing.T
	in      *topology.Namespace
	host    string
	compose []string // the command of Compose
}

// startEngine starts an engine that knows the image, and skips the test without the programs for it.
func startEngine(t *testing.T, in *topology.Namespace) *engine {
	t.Helper()
	busybox, curl := program(t, "busybox"), program(t, "curl")
	own := dockertest.NewEngine(t)
	e := &engine{T: t, in: in, host: own.Host(), compose: composeCommand(t)}
	labtest.Run(t, "dockerd", own.Command(), in)
	own.Await()
	e.build(busybox, curl)
	return e
}

// program returns the path of a program, or skips the test.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("allowed: %v (Debian: docker.io, docker-compose, busybox-static, curl)", err)
	}
	return path
}

// composeCommand returns the engine's plugin, or the older program.
func composeCommand(t *testing.T) []string {
	t.Helper()
	docker := program(t, "docker")
	if exec.Command(docker, "compose", "version").Run() == nil {
		return []string{docker, "compose"}
	}
	return []string{program(t, "docker-compose")}
}

// libraryPath matches the paths that ldd prints.
var libraryPath = regexp.MustCompile(`/\S+`)

// build builds the image.
func (e *engine) build(busybox, curl string) {
	e.Helper()
	libraries, err := exec.CommandContext(e.Context(), "ldd", curl).Output()
	if err != nil {
		e.Fatalf("ldd %s: %v", curl, err)
	}
	dir := e.TempDir()
	files := map[string]string{busybox: "/bin/busybox", curl: "/usr/bin/curl"}
	for _, library := range libraryPath.FindAllString(string(libraries), -1) {
		files[library] = library
	}
	for from, to := range files {
		content, err := os.ReadFile(from)
		to = filepath.Join(dir, to)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, content, 0o755)); err != nil {
			e.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(dockerfile), 0o600); err != nil {
		e.Fatal(err)
	}
	e.run(dir, "docker", "build", "-t", image, ".")
}

// try runs a command of the engine's client in a folder.
func (e *engine) try(dir string, command ...string) (out string, err error) {
	cmd := exec.CommandContext(context.WithoutCancel(e.Context()), command[0], command[1:]...) // also for cleanups
	cmd.Dir = dir
	// The builder without BuildKit needs no plugin of the client.
	cmd.Env = append(os.Environ(), "DOCKER_HOST="+e.host, "DOCKER_BUILDKIT=0", "COMPOSE_PROJECT_NAME=shop")
	err = e.in.Do(func() error {
		text, err := cmd.CombinedOutput()
		out = string(text)
		return err
	})
	return out, err
}

// run is try, and ends the test if the command fails.
func (e *engine) run(dir string, command ...string) string {
	e.Helper()
	out, err := e.try(dir, command...)
	if err != nil {
		e.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
	return out
}
