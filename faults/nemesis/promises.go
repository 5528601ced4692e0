package nemesis

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"portolan.dev/faults/check"
	"portolan.dev/faults/clients"
	"portolan.dev/faults/foreign"
	"portolan.dev/faults/history"
	"portolan.dev/faults/lab"
	"portolan.dev/faults/planes"
)

// The bounds for daemons on a busy machine without a disturbance. With larger bounds, the checkers
// would allow nearly anything between two disturbances.
const (
	// lag is the time that a daemon may be behind the log.
	lag = 5 * time.Second
	// grace is the time that the allocator may hold a value without a service. It consists of the
	// -verify-grace of the lab's allocator and time for its next verification.
	grace = 10 * time.Second
	// perMinute is the number of times that a daemon may print the same line in a minute.
	perMinute = 60
)

// A witness makes records of its own during a round, and checks them against the round's history.
type witness interface {
	check.Checker
	// Run makes records until the context ends.
	Run(ctx context.Context)
}

// witnesses are the constructors of a round's witnesses.
var witnesses = []func(*lab.Lab) witness{
	func(l *lab.Lab) witness { return planes.Checker{Watchers: planes.Watchers(l)} },
	func(l *lab.Lab) witness { return foreign.NewMonitor(l) },
}

// startWitnesses starts the witnesses of the round. The returned function stops them.
func (r *run) startWitnesses() (stop func()) {
	ctx, cancel := context.WithCancel(r.Context())
	var running sync.WaitGroup
	for _, call := range witnesses {
		w := call(r.Lab)
		r.witnesses = append(r.witnesses, w)
		running.Go(func() { w.Run(ctx) })
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// recordCheckers returns the checkers of a round's records.
func (r *run) recordCheckers(h *history.History) []check.Checker {
	all := []check.Checker{
		check.Writes{}, check.Order{}, check.Linearizable{}, check.Watches{CaughtUp: true}, check.Names{Lag: lag},
		check.Connections{Lag: lag, LossExpected: func(c history.Connection) bool { return r.lossAllowed(h, c) }},
		check.Allocations{Grace: grace, Incomplete: lostAllocations},
		check.Available{Longest: map[string]time.Duration{"write": recoveryTimeout, "read": recoveryTimeout, "name": recoveryTimeout, "connect": recoveryTimeout}},
	}
	for _, w := range r.witnesses {
		all = append(all, w)
	}
	return all
}

// lostAllocations reports whether the allocator may lack values because it has lost its store. It reads the values in
// use again when the registry answers, so the other faults may delay it.
func lostAllocations(h *history.History, list history.AllocationList) bool {
	lost := slices.IndexFunc(h.Faults, func(f history.Fault) bool { return slices.Contains(strings.Fields(f.Description), loseAllocations) })
	if lost < 0 || list.Ended.Before(h.Faults[lost].Began) {
		return false
	}
	return slices.ContainsFunc(h.Faults, func(f history.Fault) bool { return f.Ended.IsZero() || list.Began.Before(f.Ended.Add(lag)) })
}

// lossAllowed reports whether a connection may have been lost because of a fault. That is so only
// if the connection passed through the process of an agent with the userspace plane, and the fault
// affected the agent's node while the connection existed. The other data planes are in the kernel,
// so a fault of their agents must not affect connections.
func (r *run) lossAllowed(h *history.History, c history.Connection) bool {
	return slices.ContainsFunc(r.Nodes, func(n *lab.Node) bool {
		if n.ProxyMode != "userspace" || c.Client != "keeper "+n.Name && c.Target.Addr() != n.Addresses[0] {
			return false
		}
		return slices.ContainsFunc(h.Faults, func(d history.Fault) bool {
			return slices.Contains(strings.Fields(d.Description), n.Name) && d.Began.Before(c.Lost) && (d.Ended.IsZero() || d.Ended.After(c.Began))
		})
	})
}

// checkRecords waits until all watchers have seen the last change, and then checks the records of
// the round.
func (r *run) checkRecords() {
	r.Helper()
	var h *history.History
	for deadline := time.Now().Add(recoveryTimeout); ; <-time.After(probePause) {
		var err error
		if h, err = r.fleet.History(r.Context()); err != nil {
			r.Errorf("round %d: %v", r.number, err)
			return
		}
		if len(check.Watches{CaughtUp: true}.Check(h)) == 0 || time.Now().After(deadline) {
			break
		}
	}
	began := time.Now()
	findings := check.Run(h, r.recordCheckers(h)...)
	for _, f := range findings {
		r.Errorf("round %d: %s", r.number, f)
	}
	r.logRecentCalls(findings)
	r.measured.measure(h)
	r.Logf("round %d: checked in %s: %v", r.number, time.Since(began).Round(time.Millisecond), r.measured.Recorded)
}

// checkLogs checks the daemons' logs.
func (r *run) checkLogs() {
	r.Helper()
	recorder := history.NewRecorder()
	for _, m := range r.Machines() {
		if !m.RunsDaemon() {
			continue
		}
		for _, path := range m.Logs() {
			if err := recordFile(recorder, m.Name, path); err != nil {
				r.Error(err)
			}
		}
	}
	for _, f := range (check.Lines{PerMinute: perMinute, Except: causedByTest}).Check(recorder.History()) {
		r.Error(f)
	}
}

// causedByTest reports whether a log line is about a request that a checker sent, or about a pool of an allocator that
// has lost its store, of which there are several.
func causedByTest(line string) bool {
	return strings.HasPrefix(line, "INFO zone transfer") || strings.HasPrefix(line, "INFO pool created")
}

func recordFile(recorder *history.Recorder, process, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	return clients.RecordLog(recorder, process, file)
}
