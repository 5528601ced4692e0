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

// mostViolations is how many are kept: many mostly have one cause.
const maxViolations = 3

// forwarding checks the servers in a node's kernel at each change.
type forwardingChecker struct {
	registry *registry.Registry
	machine  *machine.Machine

	mu                 sync.Mutex // taken after the machine's
	plans              *planHistory
	addressPresent     map[netip.Addr][]bool // whether an address of node ports is there, from the beginning on
	trackers           map[serverKey]*serverTracker
	restCheckScheduled bool // rest is to be called
	violations         []error
}

// watchForwarding checks a machine. Only the addresses of node ports that are told here may come
// and go.
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
	if addressPresent := f.addressPresent[addr]; addressPresent[len(addressPresent)-1] != present {
		f.addressPresent[addr] = append(addressPresent, present)
	}
}

// course returns the course of a server. The caller holds mu.
func (f *forwardingChecker) timeline(key serverKey) timeline {
	addressPresent := f.addressPresent[key.frontend.Addr.Addr()]
	if addressPresent == nil {
		addressPresent = []bool{true}
	}
	return timeline{f.plans.versions(key), addressPresent}
}

// position returns where the kernel is on the course of a server. The caller holds mu.
func (f *forwardingChecker) tracker(key serverKey) *serverTracker {
	if f.trackers[key] == nil {
		f.trackers[key] = newServerTracker(key)
	}
	return f.trackers[key]
}

// changed looks at a server that has changed.
func (f *forwardingChecker) onChange(s *machine.Server) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plans.extend(f.registry.History())
	key := keyOf(s.ID)
	f.addViolation(f.tracker(key).update(serverStateOf(s), f.timeline(key)))
	if !f.restCheckScheduled { // once the agent has nothing left to do at this instant
		f.restCheckScheduled = true
		time.AfterFunc(1, f.checkAtRest)
	}
}

// checkAtRest looks at all servers while nothing is under way.
func (f *forwardingChecker) checkAtRest() {
	missing := f.machine.MissingStandIns()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.restCheckScheduled = false
	for key, p := range f.trackers {
		f.addViolation(p.checkAtRest(f.timeline(key)))
	}
	for _, id := range missing {
		f.addViolation(fmt.Errorf("clients of %s outside are sent to %s, where there is no server", id.For, id.Frontend))
	}
}

// removed looks at a backend that is about to go: its connections have ended, or have had their
// time.
func (f *forwardingChecker) onRemove(r machine.Removal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if r.Server.ID.Protocol == plan.UDP || !r.Backend.Busy(now) || r.Backend.Weight == 0 && now.Sub(r.Backend.DrainStart) >= drainTimeout {
		return
	}
	f.addViolation(fmt.Errorf("backend %s of %s is removed with connections, %s after it took its last one", r.Address, keyOf(r.Server.ID), now.Sub(r.Backend.DrainStart)))
}

// refused records that the balancer refused an operation on a server.
func (f *forwardingChecker) onRefuse(id kernel.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tracker(keyOf(id)).afterRefusal = true
}

// died records that the agent died, maybe on its way from one version to another.
func (f *forwardingChecker) onDeath() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.trackers {
		p.agentDied()
	}
}

// violated keeps an error.
func (f *forwardingChecker) addViolation(err error) {
	if err != nil && len(f.violations) < maxViolations {
		f.violations = append(f.violations, fmt.Errorf("%s, at %s: %w", f.plans.facts.Node, time.Now().Format("04:05.000"), err))
	}
}

// violation returns the violations as an error.
func (f *forwardingChecker) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.violations...)
}

// keyOf returns the key of a server.
func keyOf(id kernel.ID) serverKey {
	return serverKey{frontend: id.For, standIn: id.For != id.Frontend}
}

// difference returns how the kernel at rest differs from the plan of the log's head.
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
		c, want := f.timeline(key), "none"
		if last := c.planned(len(c.versions)-1, len(c.addressPresent)-1); last.exists {
			want = describeWeights(last.weights)
		}
		switch got := have[key]; {
		case got.String() != want:
			lines = append(lines, fmt.Sprintf("%s: have %s, want %s\n", key, got, want))
		case got.exists && !key.standIn && !f.machine.IsLocal(key.frontend.Addr.Addr()):
			lines = append(lines, fmt.Sprintf("%s: no packet comes there\n", key))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// weightsOf returns the weights of a server's backends. Those that take no new connections are left
// out, unless all are wanted.
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

// String names the server.
func (k serverKey) String() string {
	if k.standIn {
		return k.frontend.String() + " for clients outside"
	}
	return k.frontend.String()
}
