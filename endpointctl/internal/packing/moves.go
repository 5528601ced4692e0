package packing

import (
	"slices"

	corev1 "portolan.dev/api/core/v1"
)

// move is an update without a place in the plan yet, with the endpoints that its slice loses and
// gains.
type move struct {
	update       *corev1.EndpointSlice
	old          *corev1.EndpointSlice
	loses, gains map[string]bool
}

// orderMoves orders updates so that an endpoint that moves comes into its new slice before it
// leaves the old one. If endpoints move in a circle, there is no such order. One slice is then
// created anew and the old one deleted, because creates come first and deletes last.
func (p *Plan) orderMoves(w *DesiredSlices, existing []*corev1.EndpointSlice) {
	if len(p.Update) == 0 || len(p.Update)+len(p.Create) < 2 {
		return
	}
	waiting := make([]*move, len(p.Update))
	for i, u := range p.Update {
		waiting[i] = newMove(u, existing)
	}
	var ordered []*move
	for len(waiting) > 0 {
		next := slices.IndexFunc(waiting, func(m *move) bool { return !m.waitsForAny(waiting) })
		if next >= 0 {
			ordered = append(ordered, waiting[next])
		} else {
			next = 0
			u := waiting[0].update
			p.create(w, &Group{AddressType: u.GetAddressType(), Ports: u.GetPorts()}, u.GetEndpoints())
			p.Delete = append(p.Delete, waiting[0].old)
		}
		waiting = slices.Delete(waiting, next, next+1)
	}
	p.setStages(ordered)
}

// setStages puts each update into the first possible stage. It is after all stages that put endpoints
// which the update's slice loses into other slices.
func (p *Plan) setStages(ordered []*move) {
	gainedIn := map[string]int{} // stage by endpoint
	for _, s := range p.Create {
		for key := range keysOf(s) {
			gainedIn[key] = 0
		}
	}
	p.Update, p.stages = p.Update[:0], map[*corev1.EndpointSlice]int{}
	for _, m := range ordered {
		stage := 0
		for key := range m.loses {
			if gained, moves := gainedIn[key]; moves {
				stage = max(stage, gained+1)
			}
		}
		for key := range m.gains {
			gainedIn[key] = max(gainedIn[key], stage)
		}
		p.Update = append(p.Update, m.update)
		p.stages[m.update] = stage
	}
}

func newMove(u *corev1.EndpointSlice, existing []*corev1.EndpointSlice) *move {
	name := u.GetMetadata().GetName()
	at := slices.IndexFunc(existing, func(s *corev1.EndpointSlice) bool { return s.GetMetadata().GetName() == name })
	m := &move{update: u, old: existing[at]}
	m.loses, m.gains = keysOf(m.old), keysOf(u)
	for key := range m.loses {
		if m.gains[key] {
			delete(m.loses, key)
			delete(m.gains, key)
		}
	}
	return m
}

func keysOf(s *corev1.EndpointSlice) map[string]bool {
	keys := make(map[string]bool, len(s.GetEndpoints()))
	for _, ep := range s.GetEndpoints() {
		keys[endpointKey(ep)] = true
	}
	return keys
}

// waitsForAny reports whether an endpoint that leaves the slice has yet to come into another one.
func (m *move) waitsForAny(others []*move) bool {
	return slices.ContainsFunc(others, func(other *move) bool {
		if other == m {
			return false
		}
		for key := range m.loses {
			if other.gains[key] {
				return true
			}
		}
		return false
	})
}
