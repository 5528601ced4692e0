package nemesis

import (
	"context"
	"sync"
	"time"

	promise "portolan.dev/faults/check"
	"portolan.dev/faults/history"
	"portolan.dev/portolan/e2e/churn/check"
	"portolan.dev/portolan/e2e/churn/model"
)

const (
	// unknownWriteWindow is the time after a call without an answer in which its write may still be
	// committed. The lab's registries and its Postgres cancel abandoned calls within two seconds.
	unknownWriteWindow = 4 * time.Second
	// logTimeout is the timeout of a read of the log.
	logTimeout = 2 * time.Second
	// pollInterval is the pause between two checks of a component.
	pollInterval = 50 * time.Millisecond
)

// cachedWorld is the world that results from the log up to the revision head. It is a cache for
// committedWorld.
type cachedWorld struct {
	fleet any // the fleet that read the log
	head  uint64
	*model.World
}

// committedWorld returns the world that results from the current log.
func (r *run) committedWorld() (*model.World, error) {
	ctx, cancel := context.WithTimeout(r.Context(), logTimeout)
	defer cancel()
	log, err := r.fleet.Log(ctx)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cached.fleet != r.fleet || r.cached.head != log.Head() {
		r.cached = cachedWorld{r.fleet, log.Head(), promise.World(&log)}
	}
	return r.cached.World, nil
}

// measureConvergence waits until each component is up to date, and stores the time that this took.
// It reports no failures, because checkAtRest does so later.
func (r *run) measureConvergence(healed time.Time) {
	r.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, c := range r.daemonCheckers(false) {
		wg.Go(func() {
			if took, ok := r.awaitComponent(c, healed, r.committedWorld); ok {
				mu.Lock()
				defer mu.Unlock()
				r.measured.Convergence[c.Name()] = took
			}
		})
	}
	wg.Wait()
}

// awaitComponent waits until a component is up to date, and returns the time that has passed since
// the given time. If it is not up to date within recoveryTimeout, ok is false.
func (r *run) awaitComponent(c check.Checker, since time.Time, world func() (*model.World, error)) (took time.Duration, ok bool) {
	for time.Since(since) < recoveryTimeout {
		want, err := world()
		var findings []check.Finding
		if err == nil {
			findings, err = c.Check(r.Context(), want)
		}
		if err == nil && len(findings) == 0 {
			return time.Since(since), true
		}
		<-time.After(pollInterval)
	}
	return 0, false
}

// checkAtRest waits until no write without an answer can be committed any more, and then checks the
// state at rest.
func (r *run) checkAtRest() {
	r.Helper()
	<-time.After(time.Until(r.recorder.History().LastUnknownEnd().Add(unknownWriteWindow)))
	want, err := r.committedWorld()
	if err != nil {
		r.Errorf("round %d: reading the log: %v", r.number, err)
		return
	}
	began := time.Now()
	findings, err := check.RunAll(r.Context(), want, recoveryTimeout/2, r.atRestCheckers()...)
	if err != nil {
		r.Errorf("round %d: %v", r.number, err)
	}
	for _, f := range findings {
		r.Errorf("round %d, after %s of rest: %s", r.number, time.Since(began).Round(time.Millisecond), f)
	}
	r.logRecentCalls(findings)
}

// checkLeaks checks that daemons use no more goroutines and files than leaks allows. It is called
// when the round's clients have ended.
func (r *run) checkLeaks() {
	r.Helper()
	findings, err := check.RunAll(r.Context(), nil, recoveryTimeout/2, r.leaks)
	if err != nil {
		r.Errorf("round %d: %v", r.number, err)
	}
	for _, f := range findings {
		r.Errorf("round %d, after the clients ended: %s", r.number, f)
	}
}

// checkCleanup runs nodeagent cleanup on each node. It checks that foreign configuration is
// unchanged, then removes the foreign checkers' own additions, and checks that the namespaces of
// nodes are as they were before the first agent.
func (r *run) checkCleanup() {
	r.Helper()
	for _, n := range r.Nodes {
		if err := n.CleanUp(); err != nil {
			r.Error(err)
		}
	}
	findings, err := check.RunAll(r.Context(), nil, 0, r.foreignStateCheckers()...)
	if err != nil {
		r.Errorf("after the cleanup: %v", err)
	}
	for _, f := range findings {
		r.Errorf("after the cleanup: %s", f)
	}
	for _, g := range r.foreignCheckers {
		if err := g.Remove(); err != nil {
			r.Error(err)
		}
	}
	for _, n := range r.Nodes {
		changes, err := n.Changes()
		if err != nil || len(changes) > 0 {
			r.Errorf("%s has changes after the cleanup: %q, %v", n.Name, changes, err)
		}
	}
}

// recentCalls is the number of calls that logRecentCalls prints for a namespace.
const recentCalls = 60

// logRecentCalls prints the most recent calls of clients in the namespaces of the findings.
func (r *run) logRecentCalls(findings []check.Finding) {
	r.Helper()
	calls := map[string][]history.Call{}
	for _, c := range r.recorder.History().Calls {
		calls[c.Key.Namespace] = append(calls[c.Key.Namespace], c)
	}
	for _, f := range findings {
		all := calls[f.Object.Namespace]
		delete(calls, f.Object.Namespace)
		for _, c := range all[max(0, len(all)-recentCalls):] {
			r.Log(c)
		}
	}
}
