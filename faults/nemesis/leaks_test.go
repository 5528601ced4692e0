package nemesis

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

// The metrics that leaks reads.
const (
	goroutines = "go_goroutines"
	openFiles  = "process_open_fds"
	sockets    = "portolan_nodeagent_userspace_sockets"
)

// fakeDaemon is a daemon with metrics set by a test.
type fakeDaemon struct {
	pid    int
	values map[string]float64
}

func (g *fakeDaemon) PID() int { return g.pid }

func (g *fakeDaemon) Metric(name string, _ ...string) (float64, error) {
	if value, ok := g.values[name]; ok {
		return value, nil
	}
	return 0, fmt.Errorf("no metric %s", name)
}

// TestLeaks checks that leaks reports a daemon that leaks a goroutine or a file with each fault,
// and that it does not report sockets of frontends, the workers of a leader, or a restart.
func TestLeaks(t *testing.T) {
	const faults = 6 // in a round
	server := map[string]float64{goroutines: 100, openFiles: 20}
	agent := map[string]float64{goroutines: 104, openFiles: 24, sockets: 4}
	for _, c := range []struct {
		name   string
		first  map[string]float64
		rounds int
		// runRound changes the daemon's metrics as a round does.
		runRound func(g *fakeDaemon)
		want     string
	}{
		{"an idle daemon", server, 1, func(*fakeDaemon) {}, ""},
		{"goroutines", server, 6, func(g *fakeDaemon) { g.values[goroutines] += faults }, "goroutines besides those of frontends, 100 at first"},
		{"files", server, 3, func(g *fakeDaemon) { g.values[openFiles] += faults }, "open files besides those of frontends, 20 at first"},
		{"goroutines in userspace", agent, 6, func(g *fakeDaemon) { g.values[goroutines] += faults }, "goroutines besides those of frontends, 100 at first"},
		{"files in userspace", agent, 8, func(g *fakeDaemon) { g.values[openFiles] += faults }, "open files besides those of frontends, 20 at first"},
		{"a goroutine and a file for each frontend", agent, 1, func(g *fakeDaemon) {
			for name := range g.values {
				g.values[name] += 100
			}
		}, ""},
		{"the workers of a leader", server, 1, func(g *fakeDaemon) { g.values[goroutines] += 20 }, ""},
		{"a restart", server, 6, func(g *fakeDaemon) {
			g.pid++
			g.values[goroutines] += 100
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := &fakeDaemon{1, maps.Clone(c.first)}
			_, userspace := c.first[sockets]
			checker := &leaks{daemons: map[string]daemon{"d": g}, userspace: map[string]bool{"d": userspace}, first: map[string]usage{}}
			var found []string
			for n := range c.rounds + 1 {
				if n > 0 {
					c.runRound(g)
				}
				findings, err := checker.Check(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range findings {
					found = append(found, f.Problem)
				}
			}
			if got := strings.Join(found, "\n"); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
}
