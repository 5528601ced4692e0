package packing

import (
	"slices"
	"strings"

	corev1 "portolan.dev/api/core/v1"
)

// Plan holds the writes that turn existing slices into wanted ones. They must be made in this
// order: creates, updates in the order of Update, deletes; or stage by stage.
type Plan struct {
	Create []*corev1.EndpointSlice
	Update []*corev1.EndpointSlice // whole objects, with the resource_version on which they are based
	Delete []*corev1.EndpointSlice

	stages map[*corev1.EndpointSlice]int // of updates; 0 if there is no entry
}

// Stage holds writes that are made in any order, or at once.
type Stage struct{ Create, Update, Delete []*corev1.EndpointSlice }

// Stages returns the writes as stages. All writes of a stage must have succeeded before the next stage
// begins. An endpoint that moves is put into its new slice in one stage and taken out of its old slice in a
// later one. Nearly all plans have one stage. Deletes come last, because they take out all endpoints.
func (p *Plan) Stages() []Stage {
	if p.Empty() {
		return nil
	}
	last := 0
	for _, stage := range p.stages {
		last = max(last, stage)
	}
	stages := make([]Stage, last+1)
	stages[0].Create = p.Create
	for _, s := range p.Update {
		stage := &stages[p.stages[s]]
		stage.Update = append(stage.Update, s)
	}
	switch {
	case len(p.Delete) == 0:
	case len(p.Create)+len(p.Update) == 0:
		stages[0].Delete = p.Delete
	default:
		stages = append(stages, Stage{Delete: p.Delete})
	}
	return stages
}

// Empty reports whether there is nothing to write.
func (p *Plan) Empty() bool { return len(p.Create)+len(p.Update)+len(p.Delete) == 0 }

// placement holds the endpoints of each slice that has exactly its wanted endpoints.
type placement = map[*corev1.EndpointSlice][]*endpointOfPod

// sliceState is an existing slice with its future endpoints.
type sliceState struct {
	old     *corev1.EndpointSlice
	keep    []*corev1.Endpoint
	changed bool
	found   bool // its endpoints have not changed since the last placement
}

// Pack returns the writes that turn the existing slices of a service into the wanted ones.
func Pack(w DesiredSlices, existing []*corev1.EndpointSlice) Plan {
	plan, _ := pack(w, existing, nil)
	return plan
}

// pack is Pack with the placement of an earlier call. Slices of which all endpoints are still wanted
// are not compared again. It returns the present placement.
func pack(w DesiredSlices, existing []*corev1.EndpointSlice, before placement) (Plan, placement) {
	var p Plan
	now := make(placement, len(existing))
	existing = sortedByName(existing)
	slots := byGroup(existing)
	for i := range w.Groups {
		g, of := &w.Groups[i], w
		of.MaxPerSlice = w.perSlice(g)
		for _, item := range g.endpointItems() {
			item.unplaced = true
		}
		findPlaced(&of, slots[g.key()], before, now)
		p.packGroup(&of, g, slots[g.key()], now)
		delete(slots, g.key())
	}
	for _, s := range existing { // of groups that are not wanted any more
		if len(slots) > 0 && slots[sliceKey(s)] != nil {
			p.Delete = append(p.Delete, s)
		}
	}
	p.reuseDeleted(&w)
	p.keepPlaceholders(&w, existing)
	p.orderMoves(&w, existing)
	return p, now
}

// findPlaced keeps the endpoints of slices that an earlier placement has and of which all endpoints
// are wanted.
func findPlaced(w *DesiredSlices, slots []*sliceState, before, now placement) {
	for _, s := range slots {
		items := before[s.old]
		if len(items) == 0 || len(items) > w.MaxPerSlice || slices.ContainsFunc(items, func(e *endpointOfPod) bool { return !e.unplaced }) {
			continue
		}
		s.found, s.keep, now[s.old] = true, make([]*corev1.Endpoint, len(items)), items
		for i, e := range items {
			e.unplaced, s.keep[i] = false, e.endpoint
		}
	}
}

func sliceKey(s *corev1.EndpointSlice) groupKey {
	return groupKey{s.GetAddressType(), portsKey(s.GetPorts())}
}

func byGroup(existing []*corev1.EndpointSlice) map[groupKey][]*sliceState {
	slots := map[groupKey][]*sliceState{}
	for _, s := range existing {
		key := sliceKey(s)
		slots[key] = append(slots[key], &sliceState{old: s})
	}
	return slots
}

// sortedByName returns the slices ordered by name.
func sortedByName(existing []*corev1.EndpointSlice) []*corev1.EndpointSlice {
	return slices.SortedFunc(slices.Values(existing), compareSlices)
}

// packGroup distributes the endpoints of a group over its slices. Endpoints that are in a slice
// stay there. New ones go into slices that are written anyway, then into full new slices, and
// finally into the slice that they fill best.
func (p *Plan) packGroup(w *DesiredSlices, g *Group, slots []*sliceState, placed placement) {
	left := keepInPlace(w, g, slots, placed)
	left = fillChanged(w, slots, left)
	for len(left) >= w.MaxPerSlice {
		p.create(w, g, left[:w.MaxPerSlice])
		left = left[w.MaxPerSlice:]
	}
	if len(left) > 0 {
		if best := bestFit(w, slots, len(left)); best != nil {
			best.keep, best.changed = append(best.keep, left...), true
		} else {
			p.create(w, g, left)
		}
	}
	for _, s := range slots {
		switch {
		case len(s.keep) == 0:
			p.Delete = append(p.Delete, s.old)
		case s.changed || !w.Template.matches(s.old):
			p.Update = append(p.Update, withContents(w, s.old, g.Ports, s.keep))
		}
	}
}

// keepInPlace keeps the wanted endpoints of every slice, in their current form. It returns the
// endpoints that are in no slice yet, and adds slices that have their endpoints as wanted to placed.
func keepInPlace(w *DesiredSlices, g *Group, slots []*sliceState, placed placement) (left []*corev1.Endpoint) {
	wanted := map[string]*endpointOfPod{}
	for _, item := range g.items {
		if item.unplaced {
			wanted[item.key] = item
		}
	}
	for _, s := range slots {
		if s.found {
			continue
		}
		var items []*endpointOfPod
		for _, have := range s.old.GetEndpoints() {
			want := wanted[endpointKey(have)]
			if want == nil || len(s.keep) == w.MaxPerSlice {
				s.changed = true // not wanted, already seen in an earlier slice, or too many
				continue
			}
			delete(wanted, want.key)
			want.unplaced = false
			s.keep, items = append(s.keep, want.endpoint), append(items, want)
			s.changed = s.changed || !have.EqualVT(want.endpoint)
		}
		if !s.changed {
			placed[s.old] = items
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	for _, item := range g.items {
		if wanted[item.key] == item {
			left = append(left, item.endpoint)
			delete(wanted, item.key)
		}
	}
	return left
}

// fillChanged puts endpoints into slices that are written anyway, the fullest first. It returns the
// endpoints without a place.
func fillChanged(w *DesiredSlices, slots []*sliceState, left []*corev1.Endpoint) []*corev1.Endpoint {
	var changed []*sliceState
	for _, s := range slots {
		if len(s.keep) > 0 && (s.changed || !w.Template.matches(s.old)) {
			changed = append(changed, s)
		}
	}
	slices.SortStableFunc(changed, func(a, b *sliceState) int { return len(b.keep) - len(a.keep) })
	for _, s := range changed {
		n := min(w.MaxPerSlice-len(s.keep), len(left))
		if n > 0 {
			s.keep, s.changed = append(s.keep, left[:n]...), true
			left = left[n:]
		}
	}
	return left
}

// bestFit returns the slice that n more endpoints fill most, among those not written yet. It
// returns nil if none has room.
func bestFit(w *DesiredSlices, slots []*sliceState, n int) *sliceState {
	var best *sliceState
	for _, s := range slots {
		if len(s.keep) == 0 || s.changed || len(s.keep)+n > w.MaxPerSlice {
			continue
		}
		if best == nil || len(s.keep) > len(best.keep) {
			best = s
		}
	}
	return best
}

func (p *Plan) create(w *DesiredSlices, g *Group, endpoints []*corev1.Endpoint) {
	s := w.Template.newSlice(g.AddressType, g.Ports)
	s.Endpoints = slices.Clone(endpoints)
	p.Create = append(p.Create, s)
}

// withContents returns a slice with new contents and its existing identity.
func withContents(w *DesiredSlices, old *corev1.EndpointSlice, ports []*corev1.EndpointPort, endpoints []*corev1.Endpoint) *corev1.EndpointSlice {
	s := &corev1.EndpointSlice{
		Metadata: old.GetMetadata().CloneVT(), AddressType: old.GetAddressType(), Ports: ports, Endpoints: endpoints,
	}
	w.Template.applyTo(s)
	return s
}

// reuseDeleted turns a delete and a create of the same address type into one update, which is one
// write instead of two.
func (p *Plan) reuseDeleted(w *DesiredSlices) {
	var create []*corev1.EndpointSlice
	for _, s := range p.Create {
		at := p.mostSimilar(s)
		if at < 0 {
			create = append(create, s)
			continue
		}
		p.Update = append(p.Update, withContents(w, p.Delete[at], s.GetPorts(), s.GetEndpoints()))
		p.Delete = slices.Delete(p.Delete, at, at+1)
	}
	p.Create = create
}

// mostSimilar returns the index of the slice to be deleted that has most endpoints in common with
// the slice s to be created, so that the fewest endpoints move. It returns -1 if none has the
// address type of s.
func (p *Plan) mostSimilar(s *corev1.EndpointSlice) int {
	best, most := -1, -1
	keys := keysOf(s)
	for i, d := range p.Delete {
		if d.GetAddressType() != s.GetAddressType() {
			continue
		}
		common := 0
		for _, ep := range d.GetEndpoints() {
			if keys[endpointKey(ep)] {
				common++
			}
		}
		if common > most {
			best, most = i, common
		}
	}
	return best
}

// keepPlaceholders keeps an empty slice for each wanted family without any other slice, so that
// consumers see that the service is known and has no backends.
func (p *Plan) keepPlaceholders(w *DesiredSlices, existing []*corev1.EndpointSlice) {
	for _, family := range w.Families {
		of := func(s *corev1.EndpointSlice) bool { return s.GetAddressType() == family }
		remaining := count(existing, of) - count(p.Delete, of) + count(p.Create, of)
		if remaining > 0 {
			continue
		}
		at := slices.IndexFunc(p.Delete, of)
		if at < 0 {
			p.Create = append(p.Create, w.Template.newSlice(family, nil))
			continue
		}
		old := p.Delete[at]
		p.Delete = slices.Delete(p.Delete, at, at+1)
		if len(old.GetEndpoints()) > 0 || len(old.GetPorts()) > 0 || !w.Template.matches(old) {
			p.Update = append(p.Update, withContents(w, old, nil, nil))
		}
	}
}

func count(all []*corev1.EndpointSlice, of func(*corev1.EndpointSlice) bool) int {
	n := 0
	for _, s := range all {
		if of(s) {
			n++
		}
	}
	return n
}

func compareSlices(a, b *corev1.EndpointSlice) int {
	return strings.Compare(a.GetMetadata().GetName(), b.GetMetadata().GetName())
}
