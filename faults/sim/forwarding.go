package sim

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"portolan.dev/faults/sim/machine"
	"portolan.dev/faults/sim/registry"
	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/plan"
)

// maxViolations bounds the number of recorded violations, because further ones usually have the
// same cause.
const maxViolations = 3

// forwardingChecker checks the servers in a node's kernel at each change.
type forwardingChecker struct {
	registry *registry.Registry
	machine  *machine.Machine

	mu                 sync.Mutex // locked after the machine's mutex
	plans              *planHistory
	addressPresent     map[netip.Addr][]bool // whether a node port address is present, by period
	trackers           map[serverKey]*serverTracker
	restCheckScheduled bool
	violations         []error
}

// newForwardingChecker returns a checker that is called by the hooks of the machine m. addresses
// are the machine's addresses for node ports, present or not.
func newForwardingChecker(r *registry.Registry, name string, m *machine.Machine, addresses []netip.Addr) *forwardingChecker {
	facts := plan.Facts{Node: name, NodePorts: addresses, Scheduler: plan.RoundRobin, Drain: drainTimeout}
	f := &forwardingChecker{registry: r, machine: m, plans: newPlanHistory(facts), addressPresent: map[netip.Addr][]bool{}, trackers: map[serverKey]*serverTracker{}}
	for _, a := range addresses {
		f.addressPresent[a] = []bool{false}
	}
	m.OnChange, m.OnRemove, m.OnRefuse, m.OnDeath = f.onChange, f.onRemove, f.onRefuse, f.onDeath
	return f
}

// setAddress records that an address of node ports is added or removed.
func (f *forwardingChecker) setAddress(addr netip.Addr, present bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if periods := f.addressPresent[addr]; periods[len(periods)-1] != present {
		f.addressPresent[addr] = append(periods, present)
	}
}

// timeline returns the timeline of a server. The caller holds mu.
func (f *forwardingChecker) timeline(key serverKey) timeline {
	periods := f.addressPresent[key.frontend.Addr.Addr()]
	if periods == nil {
		periods = []bool{true}
	}
	return timeline{f.plans.versions(key), periods}
}

// tracker returns the tracker of a server. The caller holds mu.
func (f *forwardingChecker) tracker(key serverKey) *serverTracker {
	if f.trackers[key] == nil {
		f.trackers[key] = newServerTracker(key)
	}
	return f.trackers[key]
}

// onChange checks a server that has changed.
func (f *forwardingChecker) onChange(s *machine.Server) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plans.extend(f.registry.History())
	key := keyOf(s.ID)
	f.addViolation(f.tracker(key).update(serverStateOf(s), f.timeline(key)))
	if !f.restCheckScheduled {
		f.restCheckScheduled = true
		// The timer fires when the agent has nothing left to do at this instant, because virtual
		// time passes only then.
		time.AfterFunc(1, f.checkAtRest)
	}
}

// checkAtRest checks all servers when no operation is under way.
func (f *forwardingChecker) checkAtRest() {
	missing := f.machine.MissingStandIns()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.restCheckScheduled = false
	for key, tr := range f.trackers {
		f.addViolation(tr.checkAtRest(f.timeline(key)))
	}
	for _, id := range missing {
		f.addViolation(fmt.Errorf("external clients of %s are sent to %s, where there is no server", id.For, id.Frontend))
	}
}

// onRemove checks a backend that is about to be removed: its connections must have ended, or it
// must have drained for drainTimeout.
func (f *forwardingChecker) onRemove(r machine.Removal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if r.Server.ID.Protocol == plan.UDP || !r.Backend.Busy(now) || r.Backend.Weight == 0 && now.Sub(r.Backend.DrainStart) >= drainTimeout {
		return
	}
	f.addViolation(fmt.Errorf("backend %s of %s is removed with connections, %s after it began to drain", r.Address, keyOf(r.Server.ID), now.Sub(r.Backend.DrainStart)))
}

// onRefuse records that the balancer refused an operation on a server.
func (f *forwardingChecker) onRefuse(id kernel.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tracker(keyOf(id)).afterRefusal = true
}

// onDeath records that the agent died.
func (f *forwardingChecker) onDeath() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, tr := range f.trackers {
		tr.agentDied()
	}
}

// addViolation records err unless it is nil.
func (f *forwardingChecker) addViolation(err error) {
	if err != nil && len(f.violations) < maxViolations {
		f.violations = append(f.violations, fmt.Errorf("%s, at %s: %w", f.plans.facts.Node, time.Now().Format("04:05.000"), err))
	}
}

// err returns the recorded violations as one error.
func (f *forwardingChecker) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.violations...)
}

func keyOf(id kernel.ID) serverKey {
	return serverKey{frontend: id.For, standIn: id.For != id.Frontend}
}

// difference describes the differences between the kernel at rest and the plan of the log's head.
func (f *forwardingChecker) difference() string {
	servers := f.machine.Servers()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plans.extend(f.registry.History())
	have := map[serverKey]serverState{}
	for _, s := range servers {
		have[keyOf(s.ID)] = serverStateOf(&s)
		f.plans.versions(keyOf(s.ID))
	}
	var lines []string
	for key := range f.plans.byServer {
		t, want := f.timeline(key), "none"
		if last := t.planned(len(t.versions)-1, len(t.addressPresent)-1); last.exists {
			want = describeWeights(last.weights)
		}
		switch got := have[key]; {
		case got.String() != want:
			lines = append(lines, fmt.Sprintf("%s: have %s, want %s\n", key, got, want))
		case got.exists && !key.standIn && !f.machine.IsLocal(key.frontend.Addr.Addr()):
			lines = append(lines, fmt.Sprintf("%s: the address is not local\n", key))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// weightsOf returns the weights of a server's backends. Backends with weight 0 are left out unless
// includeDraining is set.
func weightsOf(s *machine.Server, includeDraining bool) map[netip.AddrPort]uint32 {
	weights := map[netip.AddrPort]uint32{}
	for at, b := range s.Backends {
		if includeDraining || b.Weight > 0 {
			weights[at] = b.Weight
		}
	}
	return weights
}

func describeWeights(weights map[netip.AddrPort]uint32) string {
	var all []string
	for at, weight := range weights {
		all = append(all, fmt.Sprintf("%s weight %d", at, weight))
	}
	slices.Sort(all)
	return "[" + strings.Join(all, ", ") + "]"
}

// String returns the frontend, and marks a stand-in.
func (k serverKey) String() string {
	if k.standIn {
		return k.frontend.String() + " for external clients"
	}
	return k.frontend.String()
}
