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
	// logTimeout is the timeout of a read of the log, before a component is checked again.
	logTimeout = 2 * time.Second
	pause      = 50 * time.Millisecond
)

// world is the world that results from the log.
type world struct {
	fleet any // the fleet that read the log
	head  uint64
	*model.World
}

// committed returns the world that results from the current log.
func (r *run) committed() (*model.World, error) {
	ctx, cancel := context.WithTimeout(r.Context(), logTimeout)
	defer cancel()
	log, err := r.fleet.Log(ctx)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.world.fleet != r.fleet || r.world.head != log.Head() {
		r.world = world{r.fleet, log.Head(), promise.World(&log)}
	}
	return r.world.World, nil
}

// converge waits until each component is up to date, and stores the time that it took. Only confirm
// reports failures.
func (r *run) converge(healed time.Time) {
	r.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, c := range r.daemons(false) {
		wg.Go(func() {
			if took, ok := r.await(c, healed, r.committed); ok {
				mu.Lock()
				defer mu.Unlock()
				r.now.Convergence[c.Name()] = took
			}
		})
	}
	wg.Wait()
}

// await returns the time from since until a component was up to date. If that takes longer than
// patience, ok is false.
func (r *run) await(c check.Checker, since time.Time, world func() (*model.World, error)) (took time.Duration, ok bool) {
	for time.Since(since) < patience {
		want, err := world()
		var findings []check.Finding
		if err == nil {
			findings, err = c.Check(r.Context(), want)
		}
		if err == nil && len(findings) == 0 {
			return time.Since(since), true
		}
		<-time.After(pause)
	}
	return 0, false
}

// confirm checks the state at rest once no unanswered write can be committed any more.
func (r *run) confirm() {
	r.Helper()
	<-time.After(time.Until(r.recorder.History().LastUnknownEnd().Add(unknownWriteWindow)))
	want, err := r.committed()
	if err != nil {
		r.Errorf("round %d: the log: %v", r.number, err)
		return
	}
	began := time.Now()
	findings, err := check.AtRest(r.Context(), want, patience/2, r.atRest()...)
	if err != nil {
		r.Errorf("round %d: %v", r.number, err)
	}
	for _, f := range findings {
		r.Errorf("round %d, after %s of rest: %s", r.number, time.Since(began).Round(time.Millisecond), f)
	}
	r.logRecentCalls(findings)
}

// checkLeaks checks that daemons use no more goroutines and files than before the first fault, once
// the round's clients are gone.
func (r *run) checkLeaks() {
	r.Helper()
	findings, err := check.AtRest(r.Context(), nil, patience/2, r.leaks)
	if err != nil {
		r.Errorf("round %d: %v", r.number, err)
	}
	for _, f := range findings {
		r.Errorf("round %d, after its clients: %s", r.number, f)
	}
}

// checkCleanup runs nodeagent cleanup on each node at the end. It checks that foreign things stay
// unchanged, and that after their removal the namespaces of nodes are as they were before the first
// agent.
func (r *run) checkCleanup() {
	r.Helper()
	for _, n := range r.Nodes {
		if err := n.CleanUp(); err != nil {
			r.Error(err)
		}
	}
	findings, err := check.AtRest(r.Context(), nil, 0, r.foreignRules()...)
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
			r.Errorf("%s after the cleanup has %q, %v", n.Name, changes, err)
		}
	}
}

// recentCalls is the number of last calls in a namespace that a failure prints.
const recentCalls = 60

// logRecentCalls prints the last calls of clients in the namespaces of findings.
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
