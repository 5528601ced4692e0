package zone

import (
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// publish turns what an object contributed into what it contributes now, in every zone.
func (t *Table) publish(e *edit, before, after *rendering) {
	for name := range before.names {
		if _, stays := after.names[name]; !stays {
			for i := range t.forward {
				e.remove(name + t.zones[i].Name)
			}
		}
	}
	for name, sets := range after.names {
		if had, was := before.names[name]; was && slices.Equal(had, sets) {
			continue
		}
		for i := range t.forward {
			e.set(name+t.zones[i].Name, uint16(i), sets)
		}
	}
	for addr, had := range before.ptrs {
		if !slices.Equal(had, after.ptrs[addr]) {
			t.point(e, ReverseName(addr), had, after.ptrs[addr])
		}
	}
	for addr, ptrs := range after.ptrs {
		if _, was := before.ptrs[addr]; !was {
			t.point(e, ReverseName(addr), nil, ptrs)
		}
	}
}

// point changes the names of one address. Several services may contribute to it. An address outside of
// all reverse ranges is a zone of its own if it is a cluster IP, which comes from a pool that was
// made since the start. Those of endpoints may be anybody's.
func (t *Table) point(e *edit, reverse string, before, after []ptr) {
	zone := t.reverseZoneOf(reverse)
	var lead, rest []string
	if n := e.get(reverse); n != nil {
		if set := n.Set(dns.TypePTR); set != nil {
			lead, rest = t.unpackPTR(*set)
		}
	}
	primary := t.zones[0].Name
	for _, p := range before {
		drop := func(name string) bool { return name == p.name+primary }
		lead, rest = slices.DeleteFunc(lead, drop), slices.DeleteFunc(rest, drop)
	}
	for _, p := range after {
		full := p.name + primary
		n := e.get(full)
		if n == nil {
			continue // too long to exist: what does not resolve forward is not given
		}
		switch {
		case p.lead:
			lead = append(lead, n.name)
		case zone >= 0:
			rest = append(rest, n.name)
		}
	}
	if zone < 0 {
		t.pointOwn(e, reverse, lead)
		return
	}
	if len(lead)+len(rest) == 0 {
		e.remove(reverse)
		return
	}
	e.set(reverse, uint16(zone), []Set{packPTR(lead, rest)})
}

// pointOwn changes the names of an address that is a zone of its own. It has no parent: what is above
// is not ours.
func (t *Table) pointOwn(e *edit, reverse string, names []string) {
	if len(names) == 0 {
		e.delete(reverse)
		return
	}
	e.put(newNode(reverse, Own, []Set{{Type: dns.TypeNS, Count: 1, Data: t.zones[0].MName}, packPTR(names, nil)}))
}

// packPTR packs the names of an address. The names of cluster IPs come first, and hold back those of endpoints at the same address.
func packPTR(lead, rest []string) Set {
	slices.Sort(lead)
	slices.Sort(rest)
	lead, rest = slices.Compact(lead), slices.Compact(rest)
	s := Set{Type: dns.TypePTR, Count: uint16(min(len(lead), maxRecords))}
	if len(lead) == 0 {
		s.Count = uint16(min(len(rest), maxRecords))
	}
	if len(lead)+len(rest) == 1 { // nearly always: the name is shared with its node
		s.Data = slices.Concat(lead, rest)[0]
		return s
	}
	s.Data = strings.Join(lead, "") + strings.Join(rest, "")
	return s
}

// unpackPTR is the inverse of packPTR. The name of a service has fewer labels than that of an endpoint.
func (t *Table) unpackPTR(s Set) (lead, rest []string) {
	data := s.Data
	for data != "" {
		n := nameLen(data)
		if t.isService(data[:n]) {
			lead = append(lead, data[:n])
		} else {
			rest = append(rest, data[:n])
		}
		data = data[n:]
	}
	return lead, rest
}

func (t *Table) isService(name string) bool {
	return Parent(Parent(name)) == svcLabel+t.zones[0].Name
}

// reverseZoneOf returns the index of the reverse zone that the name is in, -1 for none.
func (t *Table) reverseZoneOf(name string) int {
	for ; name != ""; name = Parent(name) {
		if i, ok := t.reverse[name]; ok {
			return i
		}
	}
	return -1
}

// set gives a name its sets, and makes it exist.
func (e *edit) set(name string, zone uint16, sets []Set) {
	if len(name) > maxName {
		return
	}
	have := e.get(name)
	if have != nil && have.exists && slices.Equal(have.sets, sets) {
		return
	}
	n := newNode(name, zone, sets)
	if have != nil {
		n.below = have.below
	}
	e.put(n)
	if have == nil {
		e.addBelow(Parent(name), zone)
	}
}

// addBelow counts one more node below a name, which exists from then on. The walk ends at an apex at the latest: it always exists.
func (e *edit) addBelow(name string, zone uint16) {
	have := e.get(name)
	if have != nil {
		n := *have
		n.below++
		e.put(&n)
		return
	}
	e.put(&Node{name: name, zone: zone, below: 1})
	e.addBelow(Parent(name), zone)
}

// remove takes from a name what it has. The name itself goes unless something is below.
func (e *edit) remove(name string) {
	have := e.get(name)
	switch {
	case have == nil || !have.exists:
		return
	case have.below > 0:
		e.put(&Node{name: have.name, zone: have.zone, below: have.below})
		return
	}
	e.delete(name)
	e.dropBelow(Parent(name))
}

// dropBelow counts one node less below a name, which goes if that was all it was there for.
func (e *edit) dropBelow(name string) {
	n := *e.get(name)
	n.below--
	if n.below == 0 && !n.exists {
		e.delete(name)
		e.dropBelow(Parent(name))
		return
	}
	e.put(&n)
}
