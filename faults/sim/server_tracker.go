package sim

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"portolan.dev/faults/sim/machine"
)

// content is the state of a server in the kernel. Backends without weight count in total only,
// because they may drain.
type serverState struct {
	exists        bool
	weights       map[netip.AddrPort]uint32 // weights of all backends
	activeWeights map[netip.AddrPort]uint32 // weights of the backends that take new connections
}

func serverStateOf(s *machine.Server) serverState {
	return serverState{exists: s.Backends != nil, weights: weightsOf(s, true), activeWeights: weightsOf(s, false)}
}

// takes returns the backends that are to take new connections.
func (p plannedServer) activeWeights() map[netip.AddrPort]uint32 {
	activeWeights := maps.Clone(p.weights)
	maps.DeleteFunc(activeWeights, func(_ netip.AddrPort, weight uint32) bool { return weight == 0 })
	return activeWeights
}

// is reports whether the content is the given version. Backends may drain, also those of a server
// that is to be removed. Such a server may also stay without backends: an agent that died while it
// recreated the server keeps it until it has the plan.
func (s serverState) matches(want plannedServer) bool {
	if !want.exists {
		return len(s.activeWeights) == 0
	}
	for at := range want.weights {
		if _, exists := s.weights[at]; !exists {
			return false
		}
	}
	return s.exists && maps.Equal(s.activeWeights, want.activeWeights())
}

// coursePoint is a point of a server's course where the kernel may be, with the content of the
// server there.
type candidate struct {
	version, period int
	state           serverState
}

// position is where the kernel may be on the course of one server. Where it is cannot be told from
// its content alone: a server may be the same at several revisions.
type serverTracker struct {
	key        serverKey
	candidates []candidate
	current    serverState
	// torn is set when the agent dies, maybe on its way from one version to another, until the next
	// agent has brought the server to a version. moved is set when that agent has changed it.
	interrupted, changedSinceDeath bool
	// afterRefusal is set once the kernel has refused an operation on the server. A part of one
	// version may then look like another one, and backends may be removed before others are added.
	// From then on only one rule is checked: the kernel does not return to earlier versions.
	afterRefusal bool
}

func newServerTracker(key serverKey) *serverTracker {
	return &serverTracker{key: key, candidates: []candidate{{}}}
}

// course is the sequence of versions of one server: over revisions and, for a node port, over the
// times at which its address was there.
type timeline struct {
	versions       []version
	addressPresent []bool
}

// at returns the version of the server at a place.
func (t timeline) planned(version, period int) plannedServer {
	if !t.addressPresent[period] {
		return plannedServer{}
	}
	return t.versions[version].plannedServer
}

// move takes in that the kernel has something else now, and returns an error if no way along the
// course leads there.
func (p *serverTracker) update(now serverState, t timeline) error {
	p.current, p.changedSinceDeath = now, true
	if p.afterRefusal {
		return p.checkActiveWeights(t)
	}
	var next []candidate
	for v := range t.versions {
		for period := range t.addressPresent {
			want := t.planned(v, period)
			for _, from := range p.candidates {
				if from.version > v || from.period > period || !p.isTransition(from.state, want) {
					continue
				}
				next = appendNew(next, from)
				if now.matches(want) {
					next = appendNew(next, candidate{v, period, now})
				}
			}
		}
	}
	if next == nil {
		err := fmt.Errorf("%s has %s, no way leads there from %s\n  the course: %s", p.key, now, describeCandidates(p.candidates), t.describeFrom(p.candidates))
		p.candidates, p.interrupted = []candidate{{p.candidates[0].version, p.candidates[0].period, now}}, true
		return err
	}
	p.candidates = next
	return nil
}

// follows returns an error if a backend takes connections as in no version since the first place.
func (p *serverTracker) checkActiveWeights(t timeline) error {
	first := t.versions[p.candidates[0].version:]
	for at, weight := range p.current.activeWeights {
		if !slices.ContainsFunc(first, func(v version) bool { return v.exists && v.weights[at] == weight }) {
			return fmt.Errorf("%s has %s, but %s has no such weight since %s\n  the course: %s",
				p.key, p.current, at, describeCandidates(p.candidates[:1]), t.describeFrom(p.candidates))
		}
	}
	return nil
}

// agentDied records that the agent died. The content may then be a part of a version, and the next
// agent continues from there.
func (p *serverTracker) agentDied() {
	for i := range p.candidates {
		p.candidates[i].state = p.current
	}
	p.interrupted, p.changedSinceDeath = true, false
}

// add adds a place unless the list has one that is the same.
func appendNew(list []candidate, added candidate) []candidate {
	if slices.ContainsFunc(list, func(o candidate) bool {
		return o.version == added.version && o.period == added.period && maps.Equal(o.state.weights, added.state.weights) && o.state.exists == added.state.exists
	}) {
		return list
	}
	return append(list, added)
}

// between reports whether the kernel may be on its way from a content to a version: every backend
// it has is in one of the two, and new backends are added before old ones are removed.
func (p *serverTracker) isTransition(from serverState, to plannedServer) bool {
	now, activeWeights := p.current, to.activeWeights()
	if now.exists && !from.exists && !to.exists || !now.exists && from.exists && to.exists {
		return false
	}
	for at, weight := range now.activeWeights {
		before, inFrom := from.activeWeights[at]
		after, inTo := activeWeights[at]
		if !(inFrom && before == weight) && !(inTo && after == weight) {
			return false
		}
	}
	return containsAll(now.activeWeights, from.activeWeights) || containsAll(now.activeWeights, activeWeights)
}

func containsAll(have, all map[netip.AddrPort]uint32) bool {
	for at := range all {
		if _, exists := have[at]; !exists {
			return false
		}
	}
	return true
}

// checkAtRest updates the position when no operation is under way, and returns an error if the
// content is not a version then.
func (p *serverTracker) checkAtRest(t timeline) error {
	if p.afterRefusal {
		return nil
	}
	var matching []candidate
	for _, c := range p.candidates {
		if p.current.matches(t.planned(c.version, c.period)) {
			matching = append(matching, candidate{c.version, c.period, p.current})
		}
	}
	switch {
	case p.interrupted && (matching == nil || !p.changedSinceDeath):
		p.agentDied()
	case matching != nil:
		p.candidates, p.interrupted = matching, false
	default:
		p.interrupted = true
		return fmt.Errorf("%s has %s while nothing is under way, which is no version since %s\n  the course: %s", p.key, p.current, describeCandidates(p.candidates), t.describeFrom(p.candidates))
	}
	return nil
}

// String describes the content.
func (s serverState) String() string {
	if !s.exists {
		return "none"
	}
	return describeWeights(s.weights)
}

func describeCandidates(candidates []candidate) string {
	text := ""
	for _, c := range candidates {
		text += fmt.Sprintf("[version %d, term %d: %s]", c.version, c.period, c.state)
	}
	return text
}

// from describes the course from the first of some places on.
func (t timeline) describeFrom(candidates []candidate) string {
	first, text := len(t.versions), ""
	for _, c := range candidates {
		first = min(first, c.version)
	}
	for i, v := range t.versions[max(first-1, 0):] {
		what := "none"
		if v.exists {
			what = describeWeights(v.weights)
		}
		text += fmt.Sprintf("\n    version %d, from revision %d: %s", max(first-1, 0)+i, v.revision, what)
	}
	if len(t.addressPresent) > 1 {
		text += fmt.Sprintf("\n    its address comes and goes: %t", t.addressPresent)
	}
	return text
}
