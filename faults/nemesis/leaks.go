package nemesis

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"portolan.dev/faults/lab"
	"portolan.dev/portolan/e2e/churn/check"
	"portolan.dev/portolan/e2e/churn/model"
	"portolan.dev/services/object"
)

// The numbers of goroutines and files that a daemon may have in addition to its first usage. The
// largest differences without a leak were 20 goroutines, the workers of an endpoint controller that
// has become the leader, and 3 files, connections of a registry's pool to Postgres, which has 4. A
// leak of one goroutine for each of the six faults of a round exceeds the limit after six rounds,
// and a leak of one file after three. A limit relative to the first usage would hide either for
// twice as long.
const (
	extraGoroutines = 30
	extraFiles      = 12
	// sparePipes are files that an agent with the userspace plane may have in addition. Up to 25
	// were seen after a round, and no more after five rounds. They probably are the pipes, of two
	// files each, through which Go splices bytes between connections, and which are closed by the
	// garbage collector. There is one pipe for each direction of the eight connections that clients
	// keep.
	extraPipes = 2 * 2 * 8
)

// metered is a daemon with metrics of its usage.
type daemon interface {
	PID() int
	Metric(name string, labels ...string) (float64, error)
}

// usage is the number of goroutines and files that a daemon uses.
type usage struct {
	pid                        int
	goroutines, files, sockets float64 // sockets are the frontends' sockets: each has a goroutine and a file
}

// leaks checks that daemons release the goroutines and files that they used because of faults. It
// checks while no client is connected. A restarted daemon is compared with its usage at the first
// check after the restart.
type leaks struct {
	daemons   map[string]daemon
	userspace map[string]bool // the agents with the userspace plane
	first     map[string]usage
}

// watchLeaks returns the checker for the daemons of a lab.
func newLeaks(l *lab.Lab) *leaks {
	c := &leaks{daemons: map[string]daemon{}, userspace: map[string]bool{}, first: map[string]usage{}}
	for _, m := range l.Machines() {
		if m.RunsDaemon() {
			c.daemons[m.Name] = m
		}
	}
	for _, n := range l.Nodes {
		c.userspace[n.Name] = n.ProxyMode == "userspace"
	}
	return c
}

// Name implements check.Checker.
func (*leaks) Name() string { return "leaks" }

// Check implements check.Checker.
func (c *leaks) Check(context.Context, *model.World) ([]check.Finding, error) {
	var findings []check.Finding
	for _, name := range slices.Sorted(maps.Keys(c.daemons)) {
		now, err := c.measure(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		first := c.first[name]
		if first.pid != now.pid {
			c.first[name] = now
			continue
		}
		for _, problem := range c.compare(name, first, now) {
			findings = append(findings, check.Finding{Check: c.Name(), Object: object.Key{Kind: "Daemon", Name: name}, Problem: problem})
		}
	}
	return findings, nil
}

func (c *leaks) measure(name string) (u usage, err error) {
	d := c.daemons[name]
	u.pid = d.PID()
	if u.goroutines, err = d.Metric("go_goroutines"); err != nil {
		return u, err
	}
	if u.files, err = d.Metric("process_open_fds"); err != nil {
		return u, err
	}
	if c.userspace[name] {
		u.sockets, err = d.Metric("portolan_nodeagent_userspace_sockets")
	}
	return u, err
}

// compare returns a problem for each limit that a daemon exceeds.
func (c *leaks) compare(name string, first, now usage) []string {
	var problems []string
	checkLimit := func(what string, first, now, allowed float64) {
		if now > first+allowed {
			problems = append(problems, fmt.Sprintf("%.0f %s, %.0f at first; %.0f more are allowed", now, what, first, allowed))
		}
	}
	files := float64(extraFiles)
	if c.userspace[name] {
		files += extraPipes
	}
	checkLimit("goroutines besides those of frontends", first.goroutines-first.sockets, now.goroutines-now.sockets, extraGoroutines)
	checkLimit("open files besides those of frontends", first.files-first.sockets, now.files-now.sockets, files)
	return problems
}
