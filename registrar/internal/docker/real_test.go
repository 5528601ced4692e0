package docker

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"portolan.dev/registrar/dockertest"
	"portolan.dev/registrar/source"
	"portolan.dev/services/kit/kittest"
)

// lab is a dockertest.Lab with methods that compare it with the reports of a source.
type lab struct {
	*dockertest.Lab
	t *testing.T
}

func newLab(t *testing.T, networks ...string) *lab {
	t.Helper()
	return &lab{Lab: dockertest.New(t, networks...), t: t}
}

// source runs a source at the machine's engine.
func (l *lab) source(relist time.Duration) *recorder {
	s := newSource(l.t, Options{Socket: dockertest.MachineSocket, Relist: relist})
	s.pace = defaultPace
	return run(l.t, s)
}

// states returns the workloads of this lab in the last report, as name, address and state.
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
		if load.Namespace != l.Mark {
			continue
		}
		state := "unready"
		switch {
		case load.Terminating:
			state = "terminating"
		case load.Ready:
			state = "ready"
		}
		states[l.Short(load.Name)] = strings.Join(load.Addresses, ",") + " " + state
	}
	return states, nil
}

// waitFor waits until a container is reported with a state, or is not reported if the state is empty.
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

// expected returns the states of this lab's workloads according to the docker CLI.
func (l *lab) expected() map[string]string {
	states := map[string]string{}
	for name, state := range l.Inspect() {
		states[name] = state.Address + " unready"
		if state.Ready {
			states[name] = state.Address + " ready"
		}
	}
	return states
}

// rests waits until the last report agrees with the docker CLI.
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
	l.Run("a", "3")
	l.Run("b", "0")
	l.waitFor(r, "a", "ready")
	l.waitFor(r, "b", "ready")

	l.Docker("kill", "-s", "HUP", l.Name("a"))
	var stopped sync.WaitGroup
	stopped.Go(func() { l.Docker("stop", l.Name("b")) }) // its signal comes after the signal of a
	l.waitFor(r, "b", "")
	if states, _ := l.states(r); !strings.HasSuffix(states["a"], " ready") {
		t.Errorf("after SIGHUP a is reported as %q", states["a"])
	}
	stopped.Wait()

	var ended sync.WaitGroup
	ended.Go(func() { l.Docker("stop", l.Name("a")) })
	l.waitFor(r, "a", "terminating")
	if out := l.Docker("inspect", "-f", "{{.State.Running}}", l.Name("a")); strings.TrimSpace(out) != "true" {
		t.Error("a was reported as terminating after its end")
	}
	l.waitFor(r, "a", "")
	ended.Wait()

	l.Docker("start", l.Name("a"))
	l.waitFor(r, "a", "ready")
	l.Docker("kill", l.Name("a"))
	l.waitFor(r, "a", "")
}

func TestRealNetworks(t *testing.T) {
	l := newLab(t, "x")
	r := l.source(time.Hour)
	publish := []string{"--label", "portolan.publish=true"}
	l.Run("published", "0", append(publish, "-p", "8000")...)
	l.Run("loopback", "0", append(publish, "-p", "127.0.0.1::8000")...)
	l.Run("owner", "0", "--network", l.Networks[0])
	l.Run("guest", "0", "--network", "container:"+l.Name("owner"))
	l.Run("host", "0", "--network", "host")
	l.Run("none", "0", "--network", "none")
	l.Run("both", "0", "--network", "bridge")
	l.Docker("network", "connect", l.Networks[0], l.Name("both"))

	wantPort := map[string]string{"published": "", "host": "8000", "owner": "8000", "guest": "8000"}
	for line := range strings.Lines(l.Docker("port", l.Name("published"), "8000")) {
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
			if load.Namespace == l.Mark {
				name := l.Short(load.Name)
				ports[name], hosts[name] = fmt.Sprint(load.Ports[0].Number), load.HostNetwork
			}
		}
		for _, problem := range last.Problems {
			if name, ours := strings.CutPrefix(problem.Object, l.Mark+"-"); ours && problem.Reason != reasonPublishedTwice { // the engine chooses the ports
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
	w := &watched{lab: newLab(t, "x", "y")}
	w.Start()
	s := w.Sequence(w)
	for deadline := time.Now().Add(sequenceTime); time.Now().Before(deadline); {
		s.Round()
		w.rests(w.recorder)
	}
	t.Logf("%d containers, %d operations, %d restarts of the source", len(w.Containers()), s.Operations, s.Restarts)
}

// sequenceTime is how long containers come and go.
var sequenceTime = kittest.Exploring(15 * time.Second)

// watched is a lab that a source watches. It implements dockertest.Watcher.
type watched struct {
	*lab
	recorder *recorder
}

func (w *watched) Stop() { w.recorder.stop() }

func (w *watched) Start() { w.recorder = w.source(time.Hour) }
