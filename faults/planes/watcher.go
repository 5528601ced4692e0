package planes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
)

const (
	// readInterval is the time between two readings of a node.
	readInterval = 250 * time.Millisecond
	// readTimeout is the timeout of a reading. An agent that does not answer is read again later.
	readTimeout = 5 * time.Second
)

// Watcher periodically reads a node's data plane, and keeps the readings.
type Watcher struct {
	Node      string
	Addresses []netip.Addr // addresses of the node, for node ports
	// ServiceCIDRs are the ranges of virtual addresses.
	ServiceCIDRs []netip.Prefix
	// NodePorts are the lowest and the highest node port.
	NodePorts [2]uint16
	Agent     nodeagentv1.NodeAgentServiceClient
	// Kernel reads the content of the plane. It reads more than once if expected frontends are
	// missing.
	Kernel func(expected []Frontend) (Content, error)
	// FrontendsOnly reports whether Kernel returns only frontends with backends, and no backends.
	FrontendsOnly bool
	// PID returns the ID of the agent's process, or 0 if it does not run.
	PID func() int

	mu           sync.Mutex
	readings     []Reading
	lastErr      error  // error of the last failed reading
	lastPID      int    // of the last reading
	liveRevision uint64 // applied revision of this process when it first reported a view from the registry
}

// Reading is the content of a node's data plane, with the agent's status at that time.
type Reading struct {
	At time.Time
	// Low and High are the applied revisions that the agent reported before and after the content
	// was read.
	Low, High uint64
	// MaxPlanRevision is the newest revision to which AgentPlan may belong.
	MaxPlanRevision uint64
	Kernel          Content
	// AgentPlan is the agent's plan. NotProgrammed has the agent's error for each frontend that it
	// reports as not programmed.
	AgentPlan     Content
	NotProgrammed map[Frontend]string
	// Failing are the services that the agent reports as failing, as namespace/name.
	Failing map[string]bool
	// Restarted reports whether the plane may still have frontends of an earlier agent.
	Restarted bool
}

var (
	errNothingApplied = errors.New("the agent has not applied a revision yet")
	errStopped        = errors.New("the agent does not run, or was restarted during the reading")
	errNodeFailing    = errors.New("the agent reports a failure of the whole node")
)

// Run reads until ctx is done.
func (w *Watcher) Run(ctx context.Context) {
	for ctx.Err() == nil {
		r, err := w.read(ctx)
		if ctx.Err() != nil {
			return
		}
		w.add(r, err)
		select {
		case <-ctx.Done():
		case <-time.After(readInterval):
		}
	}
}

// add stores a reading, unless it failed or equals the previous one.
func (w *Watcher) add(r Reading, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch n := len(w.readings); {
	case err != nil:
		w.lastErr = err
	case n == 0 || !r.equal(&w.readings[n-1]):
		w.readings = append(w.readings, r)
	}
}

// Readings returns the readings, and the error of the last failed reading. Readings fail while the
// agent does not run.
func (w *Watcher) Readings() (readings []Reading, lastErr error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.readings), w.lastErr
}

// read makes one reading. The agent answers GetStatus after it has finished the current changes. So
// the content of the kernel between two answers belongs to the revisions of these answers.
func (w *Watcher) read(ctx context.Context) (Reading, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	r := Reading{At: time.Now(), AgentPlan: Content{}, NotProgrammed: map[Frontend]string{}, Failing: map[string]bool{}}
	pid := w.PID()
	before, err := w.Agent.GetStatus(ctx, &nodeagentv1.GetStatusRequest{})
	if err != nil {
		return r, err
	}
	plan, err := w.Agent.GetPlan(ctx, &nodeagentv1.GetPlanRequest{})
	if err != nil {
		return r, err
	}
	w.addAgentPlan(&r, plan)
	kernel, err := w.Kernel(w.expected(r.AgentPlan))
	if err != nil {
		return r, err
	}
	after, err := w.Agent.GetStatus(ctx, &nodeagentv1.GetStatusRequest{})
	if err != nil {
		return r, err
	}
	r.Low, r.High = before.GetAppliedRevision(), after.GetAppliedRevision()
	r.MaxPlanRevision = max(r.High, after.GetViewRevision())
	r.Kernel = w.ownFrontends(kernel)
	for _, f := range slices.Concat(before.GetFailures(), after.GetFailures()) {
		if f.GetService() == "" {
			return r, fmt.Errorf("%w: %s: %s", errNodeFailing, f.GetStep(), f.GetError())
		}
		r.Failing[f.GetService()] = true
	}
	switch {
	case pid == 0 || w.PID() != pid || r.High < r.Low:
		return r, errStopped
	case r.Low == 0:
		return r, errNothingApplied
	}
	r.Restarted = w.restarted(pid, before)
	return r, nil
}

// restarted reports whether the plane may still have frontends of an earlier agent. The agent
// removes them at the end of the first batch that ends after its view is from the registry.
func (w *Watcher) restarted(pid int, status *nodeagentv1.GetStatusResponse) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if pid != w.lastPID {
		w.lastPID, w.liveRevision = pid, 0
	}
	if status.GetFromDisk() {
		return true
	}
	w.liveRevision = cmp.Or(w.liveRevision, status.GetAppliedRevision())
	return status.GetAppliedRevision() == w.liveRevision
}

// expected returns the frontends that Kernel should find if the agent's plan is in force.
func (w *Watcher) expected(plan Content) []Frontend {
	return slices.DeleteFunc(slices.Collect(maps.Keys(plan)), func(f Frontend) bool { return w.FrontendsOnly && len(plan[f]) == 0 })
}

// addAgentPlan adds the agent's plan to the reading.
func (w *Watcher) addAgentPlan(r *Reading, plan *nodeagentv1.GetPlanResponse) {
	for _, v := range plan.GetVirtualServers() {
		addr, err := netip.ParseAddr(v.GetAddress())
		at := Frontend{netip.AddrPortFrom(addr, uint16(v.GetPort())), v.GetProtocol()}
		if err != nil || !w.serves(at) {
			continue
		}
		if r.AgentPlan[at] == nil {
			r.AgentPlan[at] = []string{}
		}
		for _, b := range v.GetRealServers() {
			if addr, err := netip.ParseAddr(b.GetAddress()); err == nil && b.GetUsed() {
				r.AgentPlan.add(at, netip.AddrPortFrom(addr, uint16(b.GetPort())).String())
			}
		}
		if !v.GetProgrammed() {
			r.NotProgrammed[at] = v.GetError()
		}
	}
}

// ownFrontends removes frontends that belong to no service, and node ports at other addresses than
// the node's.
func (w *Watcher) ownFrontends(c Content) Content {
	maps.DeleteFunc(c, func(f Frontend, _ []string) bool { return !w.serves(f) })
	return c
}

// serves reports whether a frontend is a virtual address or a node port of the node.
func (w *Watcher) serves(f Frontend) bool {
	addr, port := f.Address.Addr(), f.Address.Port()
	if slices.Contains(w.Addresses, addr) {
		return port >= w.NodePorts[0] && port <= w.NodePorts[1]
	}
	return slices.ContainsFunc(w.ServiceCIDRs, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// equal reports whether two readings are equal, apart from their times.
func (r *Reading) equal(o *Reading) bool {
	return r.Low == o.Low && r.High == o.High && r.MaxPlanRevision == o.MaxPlanRevision && r.Restarted == o.Restarted &&
		maps.EqualFunc(r.Kernel, o.Kernel, slices.Equal[[]string]) && maps.EqualFunc(r.AgentPlan, o.AgentPlan, slices.Equal[[]string]) &&
		maps.Equal(r.NotProgrammed, o.NotProgrammed) && maps.Equal(r.Failing, o.Failing)
}
