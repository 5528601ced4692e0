package docker

import (
	"debug/elf"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"portolan.dev/registrar/source"
	"portolan.dev/services/kit/kittest"
)

// lab is a real engine with an image, containers and networks of one test, which are removed at its end.
type lab struct {
	t        *testing.T
	mark     string // begins the names of everything, and is the namespace of all workloads
	image    string
	networks []string
	// stops are commands that end with their container.
	stops sync.WaitGroup

	mu         sync.Mutex
	containers []string
}

// newLab needs a Docker engine at its usual place and Debian's static busybox.
func newLab(t *testing.T, networks ...string) *lab {
	t.Helper()
	if out, err := exec.Command("docker", "version").CombinedOutput(); err != nil {
		t.Skipf("allowed: no Docker engine here: %v: %s", err, out)
	}
	l := emptyLab(t)
	l.image = l.mark
	l.build()
	t.Cleanup(func() { _, _ = l.try("rmi", "-f", l.image) })
	t.Cleanup(l.remove)
	for _, network := range networks {
		l.docker("network", "create", l.name(network))
		l.networks = append(l.networks, l.name(network))
	}
	return l
}

func emptyLab(t *testing.T) *lab {
	return &lab{t: t, mark: fmt.Sprintf("portolan-%x", time.Now().UnixNano()%(1<<40))}
}

// part returns a lab with the same image for a part of the test.
func (l *lab) part(t *testing.T) *lab {
	p := emptyLab(t)
	p.image = l.image
	t.Cleanup(p.remove)
	return p
}

// build makes the image of all containers: a shell.
func (l *lab) build() {
	l.t.Helper()
	program := busybox(l.t)
	dir := l.t.TempDir()
	content, err := os.ReadFile(program)
	if err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "busybox"), content, 0o755); err != nil {
		l.t.Fatal(err)
	}
	dockerfile := "FROM scratch\nCOPY busybox /bin/busybox\nCOPY busybox /bin/sh\nEXPOSE 8000\n"
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(dockerfile), 0o600); err != nil {
		l.t.Fatal(err)
	}
	l.docker("build", "-q", "-t", l.image, dir)
}

// busybox returns the path of a busybox that needs no libraries.
func busybox(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("busybox")
	if err == nil {
		var file *elf.File
		if file, err = elf.Open(path); err == nil {
			defer func() { _ = file.Close() }()
			if slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
				err = fmt.Errorf("%s needs libraries", path)
			}
		}
	}
	if err != nil {
		if os.Getenv("PORTOLAN_REQUIRE_REAL") == "1" {
			t.Fatalf("busybox-static is needed: %v", err)
		}
		t.Skipf("busybox-static is needed: %v", err)
	}
	return path
}

func (l *lab) name(of string) string { return l.mark + "-" + of }

// docker runs a command of the docker CLI.
func (l *lab) docker(args ...string) string {
	l.t.Helper()
	out, err := l.try(args...)
	if err != nil {
		l.t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (l *lab) try(args ...string) (string, error) {
	cmd := exec.Command("docker", args...)
	cmd.Env = append(os.Environ(), "DOCKER_BUILDKIT=0")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// run starts a container of the service web with options of docker run, whose program ends a time after
// SIGTERM.
func (l *lab) run(name, linger string, options ...string) {
	l.t.Helper()
	l.start(name, "busybox sleep "+linger, append([]string{"--label", "portolan.service=web", "--label", "portolan.namespace=" + l.mark}, options...)...)
}

// start starts a container with options of docker run, whose program ends after a command when it gets
// SIGTERM. It returns the ID.
func (l *lab) start(name, end string, options ...string) string {
	l.t.Helper()
	l.mu.Lock()
	l.containers = append(l.containers, l.name(name))
	l.mu.Unlock()
	program := fmt.Sprintf(`trap "%s; exit 0" TERM; trap "" HUP; while :; do busybox sleep 1000 & wait; done`, end)
	args := append([]string{"run", "-d", "--name", l.name(name)}, options...)
	out, err := l.try(append(args, l.image, "sh", "-c", program)...)
	if err != nil {
		l.t.Errorf("docker run %s: %v\n%s", name, err, out)
	}
	return strings.TrimSpace(out)
}

func (l *lab) remove() {
	for _, container := range l.containers {
		_, _ = l.try("rm", "-f", container)
	}
	for _, network := range l.networks {
		_, _ = l.try("network", "rm", network)
	}
	l.stops.Wait()
}

// source runs a source at the engine.
func (l *lab) source(relist time.Duration) *recorder {
	s := newSource(l.t, Options{Relist: relist})
	s.pace = defaultPace
	return run(l.t, s)
}

// states describes the workloads of this lab in the last report: name, address and state.
func (l *lab) states(r *recorder) (map[string]string, error) {
	last, err := r.last()
	if err != nil {
		return nil, err
	}
	if last.Err != nil {
		return nil, last.Err
	}
	states := map[string]string{}
	for _, load := range last.Workloads {
		if load.Namespace != l.mark {
			continue
		}
		state := "unready"
		switch {
		case load.Terminating:
			state = "terminating"
		case load.Ready:
			state = "ready"
		}
		states[strings.TrimPrefix(load.Name, l.mark+"-")] = strings.Join(load.Addresses, ",") + " " + state
	}
	return states, nil
}

// waitFor waits until a container is reported with a state; an empty one: until it is not reported.
func (l *lab) waitFor(r *recorder, name, state string) {
	l.t.Helper()
	kittest.Eventually(l.t, name+" "+state, func() error {
		states, err := l.states(r)
		if err == nil && !(strings.HasSuffix(states[name], " "+state) || state == "" && states[name] == "") {
			err = fmt.Errorf("it is reported as %q", states[name])
		}
		return err
	})
}

// expected says what the docker CLI's JSON means for the workloads of this lab.
func (l *lab) expected() map[string]string {
	l.t.Helper()
	l.mu.Lock()
	names := slices.Clone(l.containers)
	l.mu.Unlock()
	states := map[string]string{}
	out, _ := exec.Command("docker", append([]string{"container", "inspect"}, names...)...).Output() // it fails for removed ones, and prints the others
	var all []map[string]any
	if err := json.Unmarshal(out, &all); err != nil && len(names) > 0 {
		l.t.Fatalf("docker inspect: %v: %s", err, out)
	}
	for _, c := range all {
		state := c["State"].(map[string]any)
		labels := c["Config"].(map[string]any)["Labels"].(map[string]any)
		networks := c["NetworkSettings"].(map[string]any)["Networks"].(map[string]any)
		wanted, named := labels["portolan.network"].(string)
		if !named && len(networks) == 1 {
			for name := range networks {
				wanted = name
			}
		}
		network, connected := networks[wanted].(map[string]any)
		if !state["Running"].(bool) || !connected {
			continue
		}
		ready := "ready"
		if health, checked := state["Health"].(map[string]any); checked && health["Status"] != "healthy" || state["Paused"].(bool) {
			ready = "unready"
		}
		name := strings.TrimPrefix(c["Name"].(string), "/"+l.mark+"-")
		states[name] = network["IPAddress"].(string) + " " + ready
	}
	return states
}

// rests waits until the report says what the docker CLI says.
func (l *lab) rests(r *recorder) {
	l.t.Helper()
	kittest.Eventually(l.t, "the report to be what docker inspect says", func() error {
		got, err := l.states(r)
		if want := l.expected(); err == nil && fmt.Sprint(got) != fmt.Sprint(want) {
			err = fmt.Errorf("the report has\n%v, docker inspect\n%v", got, want)
		}
		return err
	})
}

func TestRealStop(t *testing.T) {
	l := newLab(t)
	r := l.source(time.Hour)
	l.run("a", "3")
	l.run("b", "0")
	l.waitFor(r, "a", "ready")
	l.waitFor(r, "b", "ready")

	l.docker("kill", "-s", "HUP", l.name("a"))
	var stopped sync.WaitGroup
	stopped.Go(func() { l.docker("stop", l.name("b")) }) // it comes after the signal of a
	l.waitFor(r, "b", "")
	if states, _ := l.states(r); !strings.HasSuffix(states["a"], " ready") {
		t.Errorf("after SIGHUP a is reported as %q", states["a"])
	}
	stopped.Wait()

	var ended sync.WaitGroup
	ended.Go(func() { l.docker("stop", l.name("a")) })
	l.waitFor(r, "a", "terminating")
	if out := l.docker("inspect", "-f", "{{.State.Running}}", l.name("a")); strings.TrimSpace(out) != "true" {
		t.Error("a was reported as terminating after its end")
	}
	l.waitFor(r, "a", "")
	ended.Wait()

	l.docker("start", l.name("a"))
	l.waitFor(r, "a", "ready")
	l.docker("kill", l.name("a"))
	l.waitFor(r, "a", "")
}

func TestRealNetworks(t *testing.T) {
	l := newLab(t, "x")
	r := l.source(time.Hour)
	publish := []string{"--label", "portolan.publish=true"}
	l.run("published", "0", append(publish, "-p", "8000")...)
	l.run("loopback", "0", append(publish, "-p", "127.0.0.1::8000")...)
	l.run("owner", "0", "--network", l.networks[0])
	l.run("guest", "0", "--network", "container:"+l.name("owner"))
	l.run("host", "0", "--network", "host")
	l.run("none", "0", "--network", "none")
	l.run("both", "0", "--network", "bridge")
	l.docker("network", "connect", l.networks[0], l.name("both"))

	wantPort := map[string]string{"published": "", "host": "8000", "owner": "8000", "guest": "8000"}
	for line := range strings.Lines(l.docker("port", l.name("published"), "8000")) {
		if number, found := strings.CutPrefix(strings.TrimSpace(line), "0.0.0.0:"); found {
			wantPort["published"] = number
		}
	}
	problems := map[string]string{"loopback": reasonNotPublished, "none": source.ReasonNoAddress, "both": source.ReasonAmbiguous}
	kittest.Eventually(t, "workloads in networks of all kinds", func() error {
		last, err := r.last()
		if err != nil {
			return err
		}
		ports, hosts, found := map[string]string{}, map[string]bool{}, map[string]string{}
		for _, load := range last.Workloads {
			if load.Namespace == l.mark {
				name := strings.TrimPrefix(load.Name, l.mark+"-")
				ports[name], hosts[name] = fmt.Sprint(load.Ports[0].Number), load.HostNetwork
			}
		}
		for _, problem := range last.Problems {
			if name, ours := strings.CutPrefix(problem.Object, l.mark+"-"); ours && problem.Reason != reasonPublishedTwice { // the engine chooses the ports
				found[name] = problem.Reason
			}
		}
		states, err := l.states(r)
		switch {
		case err != nil:
			return err
		case !maps.Equal(ports, wantPort) || !maps.Equal(found, problems):
			return fmt.Errorf("the ports are %v, want %v; the problems are %v, want %v", ports, wantPort, found, problems)
		case !hosts["published"] || !hosts["host"] || hosts["owner"] || hosts["guest"]:
			return fmt.Errorf("on the host's network are %v", hosts)
		case states["owner"] != states["guest"] || strings.HasPrefix(states["owner"], " "):
			return fmt.Errorf("owner is %q, and guest in its network is %q", states["owner"], states["guest"])
		}
		return nil
	})
}

// TestRealSequence compares the report with the docker CLI after rounds of random operations.
func TestRealSequence(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("PORTOLAN_TEST_SEED"); text != "" {
		if _, err := fmt.Sscan(text, &seed); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("PORTOLAN_TEST_SEED=%d", seed)
	l := newLab(t, "x", "y")
	s := &sequence{lab: l, random: rand.New(rand.NewPCG(seed, 0)), recorder: l.source(time.Hour)}
	for deadline := time.Now().Add(sequenceTime); time.Now().Before(deadline); {
		s.round()
		l.rests(s.recorder)
	}
	t.Logf("%d containers, %d operations, %d restarts of the source", len(l.containers), s.operations, s.restarts)
}

const (
	sequenceTime  = 15 * time.Second
	maxContainers = 20 // in all
	maxAtATime    = 6
)

// sequence is a random history of containers.
type sequence struct {
	*lab
	random     *rand.Rand
	recorder   *recorder
	alive      []string // the containers that were not removed
	operations int
	restarts   int
}

// round does something to several containers at the same time, while the source may be stopped.
func (s *sequence) round() {
	away := s.random.IntN(3) == 0
	if away {
		s.recorder.stop()
	}
	var running sync.WaitGroup
	for len(s.alive) < maxAtATime && len(s.containers) < maxContainers {
		name, options := s.fresh()
		running.Go(func() { s.run(name, "0.2", options...) })
		running.Wait() // the list of names is read by the next turn
		s.alive = append(s.alive, name)
	}
	chosen := s.random.Perm(len(s.alive))[:min(4, len(s.alive))]
	slices.Sort(chosen)
	slices.Reverse(chosen) // so that removals keep the indices of the others
	for _, index := range chosen {
		steps := s.steps(index)
		running.Go(func() {
			for _, step := range steps {
				_, _ = s.try(step...) // such as stopping a container that does not run
			}
		})
	}
	if away && s.random.IntN(2) == 0 { // it starts amid the changes
		s.recorder, away = s.source(time.Hour), false
		s.restarts++
	}
	running.Wait()
	if away {
		s.recorder = s.source(time.Hour)
		s.restarts++
	}
}

// fresh returns a new container.
func (s *sequence) fresh() (string, []string) {
	name := fmt.Sprintf("c%d", len(s.containers))
	options := []string{"--network", s.networks[s.random.IntN(2)]}
	if s.random.IntN(2) == 0 {
		options = append(options, "--health-cmd", "[ -e /healthy ]", "--health-interval", "200ms", "--health-retries", "1")
	}
	if s.random.IntN(3) == 0 {
		options = append(options, "--label", "portolan.network="+s.networks[0])
	}
	if s.random.IntN(4) == 0 {
		options = append(options, "--restart", "always")
	}
	return name, options
}

// steps are commands for one container.
func (s *sequence) steps(index int) [][]string {
	name, network := s.name(s.alive[index]), s.networks[s.random.IntN(2)]
	choices := [][][]string{
		{{"exec", name, "busybox", "touch", "/healthy"}},
		{{"exec", name, "busybox", "rm", "-f", "/healthy"}},
		{{"stop", "-t", "1", name}},
		{{"stop", "-t", "1", name}, {"start", name}},
		{{"kill", name}},
		{{"kill", name}, {"start", name}},
		{{"kill", "-s", "HUP", name}},
		{{"restart", "-t", "1", name}},
		{{"start", name}},
		{{"pause", name}},
		{{"unpause", name}},
		{{"pause", name}, {"unpause", name}},
		{{"network", "connect", network, name}},
		{{"network", "disconnect", network, name}},
		{{"rm", "-f", name}},
	}
	steps := choices[s.random.IntN(len(choices))]
	if steps[0][0] == "rm" {
		s.alive = slices.Delete(s.alive, index, index+1)
	}
	s.operations += len(steps)
	return steps
}
