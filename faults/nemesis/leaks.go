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

// The numbers of goroutines and files that a daemon may have in addition to its first usage.
//
// The largest differences without a leak were 20 goroutines and 3 files. The goroutines were the
// workers of an endpoint controller that had become the leader. The files were connections of a
// registry's pool to Postgres, which has 4 connections. An lbctl with its usual 32 workers had 51 more
// goroutines when it had become the leader, so the lab's lbctls have 4 workers.
//
// A leak of one goroutine for each of the six faults of a round exceeds the limit after six rounds,
// and a leak of one file for each fault after three. With a limit relative to the first usage, it
// would take twice as many rounds.
const (
	extraGoroutines = 30
	extraFiles      = 12
	// extraPipes is the number of files that an agent with the userspace plane may have in addition
	// to extraFiles. Up to 25 such files were measured after one round, and no more after five
	// rounds. They are probably pipes, of two files each, that Go uses to splice bytes between
	// connections. The garbage collector closes them. There is one pipe for each direction of the
	// eight connections that clients keep open.
	extraPipes = 2 * 2 * 8
)

// daemon is a daemon with metrics of its usage.
type daemon interface {
	PID() int
	Metric(name string, labels ...string) (float64, error)
}

// usage is the number of goroutines and files that a daemon uses.
type usage struct {
	pid               int
	goroutines, files float64
	// sockets is the number of the userspace plane's sockets for frontends. Each of them needs a
	// goroutine and a file.
	sockets float64
}

// leaks checks that daemons release the goroutines and files that they used because of faults. It
// checks while no client is connected. It compares a daemon's usage with the usage at the first
// check, or at the first check after a restart of the daemon.
type leaks struct {
	daemons   map[string]daemon
	userspace map[string]bool // agents with the userspace plane
	first     map[string]usage
}

// newLeaks returns the checker for the daemons of a lab.
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

// measure returns a daemon's current usage.
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
