package sim

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"portolan.dev/faults/sim/machine"
)

// serverState is the state of a server in the kernel.
type serverState struct {
	exists        bool
	weights       map[netip.AddrPort]uint32 // of all backends
	activeWeights map[netip.AddrPort]uint32 // without backends of weight 0, which only drain
}

func serverStateOf(s *machine.Server) serverState {
	return serverState{exists: s.Backends != nil, weights: weightsOf(s, true), activeWeights: weightsOf(s, false)}
}

// activeWeights returns the weights of the backends that the plan gives new connections.
func (p plannedServer) activeWeights() map[netip.AddrPort]uint32 {
	active := maps.Clone(p.weights)
	maps.DeleteFunc(active, func(_ netip.AddrPort, weight uint32) bool { return weight == 0 })
	return active
}

// matches reports whether the kernel's server is as planned, apart from draining backends. If no
// server is planned, a server without active backends matches: its backends may still drain, and if
// an agent died while it recreated the server, the next agent keeps the server without backends
// until that agent has the plan.
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

// candidate is a point of a server's timeline at which the kernel may be, with the kernel's state
// of the server when it was there.
type candidate struct {
	version, period int
	state           serverState
}

// serverTracker tracks at which points of a server's timeline the kernel may be. There can be
// several candidates, because a server may have the same state at several revisions.
type serverTracker struct {
	key        serverKey
	candidates []candidate
	current    serverState
	// interrupted is set when the agent dies, possibly between two versions, until the next agent
	// has brought the server to a version. changedSinceDeath is set once the next agent has changed
	// the server.
	interrupted, changedSinceDeath bool
	// afterRefusal is set once the kernel has refused an operation on the server. A part of one
	// version may then look like another version, and backends may be removed before others are
	// added. From then on the only check is that the kernel does not return to earlier versions.
	afterRefusal bool
}

func newServerTracker(key serverKey) *serverTracker {
	return &serverTracker{key: key, candidates: []candidate{{}}}
}

// timeline is the sequence of planned states of one server. It has two dimensions: the versions, by
// revision, and the periods in which the address of a node port was present or absent.
type timeline struct {
	versions       []version
	addressPresent []bool // one element for each period
}

// planned returns the planned server for a version in a period.
func (t timeline) planned(version, period int) plannedServer {
	if !t.addressPresent[period] {
		return plannedServer{}
	}
	return t.versions[version].plannedServer
}

// update records the present state of the server. It returns an error unless the state can occur on
// a permitted transition from a candidate to the same or a later point of the timeline.
func (tr *serverTracker) update(now serverState, t timeline) error {
	tr.current, tr.changedSinceDeath = now, true
	if tr.afterRefusal {
		return tr.checkActiveWeights(t)
	}
	var next []candidate
	for v := range t.versions {
		for period := range t.addressPresent {
			want := t.planned(v, period)
			for _, from := range tr.candidates {
				if from.version > v || from.period > period || !tr.isTransition(from.state, want) {
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
		err := fmt.Errorf("%s has %s, which no planned transition reaches from %s\n  timeline: %s", tr.key, now, describeCandidates(tr.candidates), t.describeFrom(tr.candidates))
		tr.candidates, tr.interrupted = []candidate{{tr.candidates[0].version, tr.candidates[0].period, now}}, true
		return err
	}
	tr.candidates = next
	return nil
}

// checkActiveWeights returns an error if an active backend has a weight that it has in no version
// since the first candidate.
func (tr *serverTracker) checkActiveWeights(t timeline) error {
	first := t.versions[tr.candidates[0].version:]
	for at, weight := range tr.current.activeWeights {
		if !slices.ContainsFunc(first, func(v version) bool { return v.exists && v.weights[at] == weight }) {
			return fmt.Errorf("%s has %s, but %s has no such weight since %s\n  timeline: %s",
				tr.key, tr.current, at, describeCandidates(tr.candidates[:1]), t.describeFrom(tr.candidates))
		}
	}
	return nil
}

// agentDied records that the agent died. The state may then lie between two versions, and the next
// agent continues from it.
func (tr *serverTracker) agentDied() {
	for i := range tr.candidates {
		tr.candidates[i].state = tr.current
	}
	tr.interrupted, tr.changedSinceDeath = true, false
}

// appendNew appends a candidate unless the list has an equal one.
func appendNew(list []candidate, added candidate) []candidate {
	if slices.ContainsFunc(list, func(o candidate) bool {
		return o.version == added.version && o.period == added.period && maps.Equal(o.state.weights, added.state.weights) && o.state.exists == added.state.exists
	}) {
		return list
	}
	return append(list, added)
}

// isTransition reports whether the current state can occur while an agent changes the server from
// one state to another: every active backend is in one of the two, and new backends are added
// before old ones are removed.
func (tr *serverTracker) isTransition(from serverState, to plannedServer) bool {
	now, target := tr.current, to.activeWeights()
	if now.exists && !from.exists && !to.exists || !now.exists && from.exists && to.exists {
		return false
	}
	for at, weight := range now.activeWeights {
		before, inFrom := from.activeWeights[at]
		after, inTo := target[at]
		if !(inFrom && before == weight) && !(inTo && after == weight) {
			return false
		}
	}
	return containsAll(now.activeWeights, from.activeWeights) || containsAll(now.activeWeights, target)
}

func containsAll(have, all map[netip.AddrPort]uint32) bool {
	for at := range all {
		if _, exists := have[at]; !exists {
			return false
		}
	}
	return true
}

// checkAtRest updates the candidates when no operation is under way. It returns an error if the
// current state is no version, unless the agent died and the next agent has not completed its work.
func (tr *serverTracker) checkAtRest(t timeline) error {
	if tr.afterRefusal {
		return nil
	}
	var matching []candidate
	for _, c := range tr.candidates {
		if tr.current.matches(t.planned(c.version, c.period)) {
			matching = append(matching, candidate{c.version, c.period, tr.current})
		}
	}
	switch {
	case tr.interrupted && (matching == nil || !tr.changedSinceDeath):
		tr.agentDied()
	case matching != nil:
		tr.candidates, tr.interrupted = matching, false
	default:
		tr.interrupted = true
		return fmt.Errorf("%s has %s at rest, which is no planned version since %s\n  timeline: %s", tr.key, tr.current, describeCandidates(tr.candidates), t.describeFrom(tr.candidates))
	}
	return nil
}

// String lists the backends with their weights.
func (s serverState) String() string {
	if !s.exists {
		return "none"
	}
	return describeWeights(s.weights)
}

func describeCandidates(candidates []candidate) string {
	text := ""
	for _, c := range candidates {
		text += fmt.Sprintf("[version %d, period %d: %s]", c.version, c.period, c.state)
	}
	return text
}

// describeFrom describes the timeline, beginning one version before the first candidate.
func (t timeline) describeFrom(candidates []candidate) string {
	first, text := len(t.versions), ""
	for _, c := range candidates {
		first = min(first, c.version)
	}
	for i, v := range t.versions[max(first-1, 0):] {
		planned := "none"
		if v.exists {
			planned = describeWeights(v.weights)
		}
		text += fmt.Sprintf("\n    version %d, from revision %d: %s", max(first-1, 0)+i, v.revision, planned)
	}
	if len(t.addressPresent) > 1 {
		text += fmt.Sprintf("\n    address present, by period: %t", t.addressPresent)
	}
	return text
}
