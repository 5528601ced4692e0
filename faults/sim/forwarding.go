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
const mostViolations = 3

// forwarding checks the servers in a node's kernel at each change.
type forwarding struct {
	registry *registry.Registry
	machine  *machine.Machine

	mu         sync.Mutex // taken after the machine's
	courses    *courses
	terms      map[netip.Addr][]bool // whether an address of node ports is there, from the beginning on
	positions  map[serverKey]*position
	resting    bool // rest is to be called
	violations []error
}

// watchForwarding checks a machine. Only the addresses of node ports that are told here may come
// and go.
func watchForwarding(r *registry.Registry, name string, m *machine.Machine, addresses []netip.Addr) *forwarding {
	facts := plan.Facts{Node: name, NodePorts: addresses, Scheduler: plan.RoundRobin, Drain: drainTimeout}
	f := &forwarding{registry: r, machine: m, courses: newCourses(facts), terms: map[netip.Addr][]bool{}, positions: map[serverKey]*position{}}
	for _, a := range addresses {
		f.terms[a] = []bool{false}
	}
	m.Changed, m.Removed, m.Refused, m.Died = f.changed, f.removed, f.refused, f.died
	return f
}

// setAddress records that an address of node ports is added or removed.
func (f *forwarding) setAddress(addr netip.Addr, there bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if terms := f.terms[addr]; terms[len(terms)-1] != there {
		f.terms[addr] = append(terms, there)
	}
}

// course returns the course of a server. The caller holds mu.
func (f *forwarding) course(key serverKey) course {
	terms := f.terms[key.at.Addr.Addr()]
	if terms == nil {
		terms = []bool{true}
	}
	return course{f.courses.versions(key), terms}
}

// position returns where the kernel is on the course of a server. The caller holds mu.
func (f *forwarding) position(key serverKey) *position {
	if f.positions[key] == nil {
		f.positions[key] = newPosition(key)
	}
	return f.positions[key]
}

// changed looks at a server that has changed.
func (f *forwarding) changed(s *machine.Server) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.courses.extend(f.registry.History())
	key := keyOf(s.ID)
	f.violated(f.position(key).move(contentOf(s), f.course(key)))
	if !f.resting { // once the agent has nothing left to do at this instant
		f.resting = true
		time.AfterFunc(1, f.checkAtRest)
	}
}

// checkAtRest looks at all servers while nothing is under way.
func (f *forwarding) checkAtRest() {
	misled := f.machine.Misled()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resting = false
	for key, p := range f.positions {
		f.violated(p.checkAtRest(f.course(key)))
	}
	for _, id := range misled {
		f.violated(fmt.Errorf("clients of %s outside are sent to %s, where there is no server", id.For, id.Frontend))
	}
}

// removed looks at a backend that is about to go: its connections have ended, or have had their
// time.
func (f *forwarding) removed(r machine.Removal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if r.Server.ID.Protocol == plan.UDP || !r.Backend.Busy(now) || r.Backend.Weight == 0 && now.Sub(r.Backend.Since) >= drainTimeout {
		return
	}
	f.violated(fmt.Errorf("backend %s of %s is removed with connections, %s after it took its last one", r.Address, keyOf(r.Server.ID), now.Sub(r.Backend.Since)))
}

// refused records that the balancer refused an operation on a server.
func (f *forwarding) refused(id kernel.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.position(keyOf(id)).afterRefusal = true
}

// died records that the agent died, maybe on its way from one version to another.
func (f *forwarding) died() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.positions {
		p.agentDied()
	}
}

// violated keeps an error.
func (f *forwarding) violated(err error) {
	if err != nil && len(f.violations) < mostViolations {
		f.violations = append(f.violations, fmt.Errorf("%s, at %s: %w", f.courses.facts.Node, time.Now().Format("04:05.000"), err))
	}
}

// violation returns the violations as an error.
func (f *forwarding) violation() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.violations...)
}

// keyOf returns the key of a server.
func keyOf(id kernel.ID) serverKey { return serverKey{at: id.For, standIn: id.For != id.Frontend} }

// difference returns how the kernel at rest differs from the plan of the log's head.
func (f *forwarding) difference() string {
	servers := f.machine.Servers()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.courses.extend(f.registry.History())
	have := map[serverKey]content{}
	for _, s := range servers {
		have[keyOf(s.ID)] = contentOf(&s)
		f.courses.versions(keyOf(s.ID))
	}
	var lines []string
	for key := range f.courses.of {
		c, want := f.course(key), "none"
		if last := c.at(len(c.versions)-1, len(c.terms)-1); last.there {
			want = describeWeights(last.weights)
		}
		switch got := have[key]; {
		case got.String() != want:
			lines = append(lines, fmt.Sprintf("%s: have %s, want %s\n", key, got, want))
		case got.there && !key.standIn && !f.machine.Reaches(key.at.Addr.Addr()):
			lines = append(lines, fmt.Sprintf("%s: no packet comes there\n", key))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// weightsOf returns the weights of a server's backends. Those that take no new connections are left
// out, unless all are wanted.
func weightsOf(s *machine.Server, all bool) map[netip.AddrPort]uint32 {
	weights := map[netip.AddrPort]uint32{}
	for at, b := range s.Backends {
		if all || b.Weight > 0 {
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
		return k.at.String() + " for clients outside"
	}
	return k.at.String()
}
