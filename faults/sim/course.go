package sim

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"portolan.dev/faults/sim/machine"
)

// content is what the kernel has of a server. Backends without weight count in total only: they may drain.
type content struct {
	there bool
	total map[netip.AddrPort]uint32 // weights of all backends
	takes map[netip.AddrPort]uint32 // of those that take new connections
}

func contentOf(s *machine.Server) content {
	return content{there: s.Backends != nil, total: weightsOf(s, true), takes: weightsOf(s, false)}
}

// takes returns the backends that are to take new connections.
func (w wanted) takes() map[netip.AddrPort]uint32 {
	takes := maps.Clone(w.weights)
	maps.DeleteFunc(takes, func(_ netip.AddrPort, weight uint32) bool { return weight == 0 })
	return takes
}

// is reports whether the content is what a version wants. Backends may drain, also of a server that is to be gone. Such a
// server may stay without backends, too: an agent that died over making it anew keeps it until it knows the plan.
func (c content) is(w wanted) bool {
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

// place is a point of a server's course where the kernel may be, and what the server had there.
type place struct {
	version, term int
	had           content
}

// position is where the kernel may be on the course of one server. Where it is cannot be told from its content alone: a
// server may be the same at several revisions.
type position struct {
	key    serverKey
	places []place
	have   content
	// torn: the agent died on its way from one version to another, or the balancer refused a part of it.
	torn bool
	// refused: the balancer refused a part of the way, so that what goes may go before what comes.
	refused bool
}

func newPosition(key serverKey) *position { return &position{key: key, places: []place{{}}} }

// course is what one server is to be, over revisions and, of a node port, over the times that its address was there.
type course struct {
	versions []version
	terms    []bool
}

// at returns what is wanted at a place.
func (c course) at(version, term int) wanted {
	if !c.terms[term] {
		return wanted{}
	}
	return c.versions[version].wanted
}

// move takes in that the kernel has something else now, and returns an error if no way along the course leads there.
func (p *position) move(now content, c course) error {
	p.have = now
	var next []place
	for v := range c.versions {
		for t := range c.terms {
			w := c.at(v, t)
			for _, from := range p.places {
				if from.version > v || from.term > t || !p.between(from.had, w) {
					continue
				}
				next = add(next, from)
				if now.is(w) {
					next = add(next, place{v, t, now})
				}
			}
		}
	}
	if next == nil {
		err := fmt.Errorf("%s has %s, no way leads there from %s\n  the course: %s", p.key, now, describePlaces(p.places), c.from(p.places))
		p.places, p.torn = []place{{p.places[0].version, p.places[0].term, now}}, true
		return err
	}
	p.places = next
	return nil
}

// add adds a place unless the list has one that is the same.
func add(list []place, one place) []place {
	if slices.ContainsFunc(list, func(o place) bool {
		return o.version == one.version && o.term == one.term && maps.Equal(o.had.total, one.had.total) && o.had.there == one.had.there
	}) {
		return list
	}
	return append(list, one)
}

// between reports whether the kernel may be on its way from a content to a version: there is nothing that neither has, and
// what comes has come before anything goes.
func (p *position) between(from content, to wanted) bool {
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
	if p.refused {
		return true
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

// rest takes in that nothing is under way, and returns an error if the content is no version then.
func (p *position) rest(c course) error {
	var exact []place
	for _, one := range p.places {
		if p.have.is(c.at(one.version, one.term)) {
			exact = append(exact, place{one.version, one.term, p.have})
		}
	}
	switch {
	case exact != nil:
		p.places, p.torn, p.refused = exact, false, false
	case p.torn:
		p.places = []place{{p.places[0].version, p.places[0].term, p.have}}
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

func describePlaces(places []place) string {
	text := ""
	for _, one := range places {
		text += fmt.Sprintf("[version %d, term %d: %s]", one.version, one.term, one.had)
	}
	return text
}

// from describes the course from the first of some places on.
func (c course) from(places []place) string {
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
