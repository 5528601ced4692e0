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
type content struct {
	there bool
	total map[netip.AddrPort]uint32 // weights of all backends
	takes map[netip.AddrPort]uint32 // weights of the backends that take new connections
}

func contentOf(s *machine.Server) content {
	return content{there: s.Backends != nil, total: weightsOf(s, true), takes: weightsOf(s, false)}
}

// takes returns the backends that are to take new connections.
func (w plannedServer) takes() map[netip.AddrPort]uint32 {
	takes := maps.Clone(w.weights)
	maps.DeleteFunc(takes, func(_ netip.AddrPort, weight uint32) bool { return weight == 0 })
	return takes
}

// is reports whether the content is the given version. Backends may drain, also those of a server
// that is to be removed. Such a server may also stay without backends: an agent that died while it
// recreated the server keeps it until it has the plan.
func (c content) is(w plannedServer) bool {
	if !w.there {
		return len(c.takes) == 0
	}
	for at := range w.weights {
		if _, there := c.total[at]; !there {
			return false
		}
	}
	return c.there && maps.Equal(c.takes, w.takes())
}

// coursePoint is a point of a server's course where the kernel may be, with the content of the
// server there.
type coursePoint struct {
	version, term int
	had           content
}

// position is where the kernel may be on the course of one server. Where it is cannot be told from
// its content alone: a server may be the same at several revisions.
type position struct {
	key    serverKey
	places []coursePoint
	have   content
	// torn is set when the agent dies, maybe on its way from one version to another, until the next
	// agent has brought the server to a version. moved is set when that agent has changed it.
	torn, moved bool
	// afterRefusal is set once the kernel has refused an operation on the server. A part of one
	// version may then look like another one, and backends may be removed before others are added.
	// From then on only one rule is checked: the kernel does not return to earlier versions.
	afterRefusal bool
}

func newPosition(key serverKey) *position { return &position{key: key, places: []coursePoint{{}}} }

// course is the sequence of versions of one server: over revisions and, for a node port, over the
// times at which its address was there.
type course struct {
	versions []version
	terms    []bool
}

// at returns the version of the server at a place.
func (c course) at(version, term int) plannedServer {
	if !c.terms[term] {
		return plannedServer{}
	}
	return c.versions[version].plannedServer
}

// move takes in that the kernel has something else now, and returns an error if no way along the
// course leads there.
func (p *position) move(now content, c course) error {
	p.have, p.moved = now, true
	if p.afterRefusal {
		return p.follows(c)
	}
	var next []coursePoint
	for v := range c.versions {
		for t := range c.terms {
			w := c.at(v, t)
			for _, from := range p.places {
				if from.version > v || from.term > t || !p.between(from.had, w) {
					continue
				}
				next = add(next, from)
				if now.is(w) {
					next = add(next, coursePoint{v, t, now})
				}
			}
		}
	}
	if next == nil {
		err := fmt.Errorf("%s has %s, no way leads there from %s\n  the course: %s", p.key, now, describePlaces(p.places), c.from(p.places))
		p.places, p.torn = []coursePoint{{p.places[0].version, p.places[0].term, now}}, true
		return err
	}
	p.places = next
	return nil
}

// follows returns an error if a backend takes connections as in no version since the first place.
func (p *position) follows(c course) error {
	first := c.versions[p.places[0].version:]
	for at, weight := range p.have.takes {
		if !slices.ContainsFunc(first, func(v version) bool { return v.there && v.weights[at] == weight }) {
			return fmt.Errorf("%s has %s, but %s has no such weight since %s\n  the course: %s",
				p.key, p.have, at, describePlaces(p.places[:1]), c.from(p.places))
		}
	}
	return nil
}

// agentDied records that the agent died. The content may then be a part of a version, and the next
// agent continues from there.
func (p *position) agentDied() {
	for i := range p.places {
		p.places[i].had = p.have
	}
	p.torn, p.moved = true, false
}

// add adds a place unless the list has one that is the same.
func add(list []coursePoint, one coursePoint) []coursePoint {
	if slices.ContainsFunc(list, func(o coursePoint) bool {
		return o.version == one.version && o.term == one.term && maps.Equal(o.had.total, one.had.total) && o.had.there == one.had.there
	}) {
		return list
	}
	return append(list, one)
}

// between reports whether the kernel may be on its way from a content to a version: every backend
// it has is in one of the two, and new backends are added before old ones are removed.
func (p *position) between(from content, to plannedServer) bool {
	now, takes := p.have, to.takes()
	if now.there && !from.there && !to.there || !now.there && from.there && to.there {
		return false
	}
	for at, weight := range now.takes {
		before, was := from.takes[at]
		after, is := takes[at]
		if !(was && before == weight) && !(is && after == weight) {
			return false
		}
	}
	return hasAll(now.takes, from.takes) || hasAll(now.takes, takes)
}

func hasAll(have, all map[netip.AddrPort]uint32) bool {
	for at := range all {
		if _, there := have[at]; !there {
			return false
		}
	}
	return true
}

// checkAtRest updates the position when no operation is under way, and returns an error if the
// content is not a version then.
func (p *position) checkAtRest(c course) error {
	if p.afterRefusal {
		return nil
	}
	var exact []coursePoint
	for _, one := range p.places {
		if p.have.is(c.at(one.version, one.term)) {
			exact = append(exact, coursePoint{one.version, one.term, p.have})
		}
	}
	switch {
	case p.torn && (exact == nil || !p.moved):
		p.agentDied()
	case exact != nil:
		p.places, p.torn = exact, false
	default:
		p.torn = true
		return fmt.Errorf("%s has %s while nothing is under way, which is no version since %s\n  the course: %s", p.key, p.have, describePlaces(p.places), c.from(p.places))
	}
	return nil
}

// String describes the content.
func (c content) String() string {
	if !c.there {
		return "none"
	}
	return describeWeights(c.total)
}

func describePlaces(places []coursePoint) string {
	text := ""
	for _, one := range places {
		text += fmt.Sprintf("[version %d, term %d: %s]", one.version, one.term, one.had)
	}
	return text
}

// from describes the course from the first of some places on.
func (c course) from(places []coursePoint) string {
	first, text := len(c.versions), ""
	for _, one := range places {
		first = min(first, one.version)
	}
	for i, v := range c.versions[max(first-1, 0):] {
		what := "none"
		if v.there {
			what = describeWeights(v.weights)
		}
		text += fmt.Sprintf("\n    version %d, from revision %d: %s", max(first-1, 0)+i, v.revision, what)
	}
	if len(c.terms) > 1 {
		text += fmt.Sprintf("\n    its address comes and goes: %t", c.terms)
	}
	return text
}
