package zone

import (
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// publish replaces the names of an object's older version by the names of its newer version, in every
// zone.
func (t *Table) publish(e *edit, before, after *rendering) {
	for name := range before.names {
		if _, stays := after.names[name]; !stays {
			for i := range t.forwardZones {
				e.remove(name + t.zones[i].Name)
			}
		}
	}
	for name, sets := range after.names {
		if had, was := before.names[name]; was && slices.Equal(had, sets) {
			continue
		}
		for i := range t.forwardZones {
			e.set(name+t.zones[i].Name, uint16(i), sets)
		}
	}
	for addr, had := range before.ptrs {
		if !slices.Equal(had, after.ptrs[addr]) {
			t.updatePTR(e, ReverseName(addr), had, after.ptrs[addr])
		}
	}
	for addr, ptrs := range after.ptrs {
		if _, was := before.ptrs[addr]; !was {
			t.updatePTR(e, ReverseName(addr), nil, ptrs)
		}
	}
}

// updatePTR updates the PTR records of one address. Several services may contribute to them. A
// cluster IP outside of all reverse ranges comes from a pool that was made since the start, so its
// address becomes a zone of its own. Addresses of endpoints outside of the ranges get no records,
// because they may belong to another network.
func (t *Table) updatePTR(e *edit, reverse string, before, after []ptr) {
	zone := t.reverseZoneOf(reverse)
	var serviceNames, endpointNames []string
	if n := e.get(reverse); n != nil {
		if set := n.Set(dns.TypePTR); set != nil {
			serviceNames, endpointNames = t.unpackPTR(*set)
		}
	}
	primary := t.zones[0].Name
	for _, p := range before {
		drop := func(name string) bool { return name == p.name+primary }
		serviceNames, endpointNames = slices.DeleteFunc(serviceNames, drop), slices.DeleteFunc(endpointNames, drop)
	}
	for _, p := range after {
		full := p.name + primary
		n := e.get(full)
		if n == nil {
			continue // Too long to exist: a PTR record must name a target that resolves.
		}
		switch {
		case p.clusterIP:
			serviceNames = append(serviceNames, n.name)
		case zone >= 0:
			endpointNames = append(endpointNames, n.name)
		}
	}
	switch {
	case zone < 0:
		t.updateAddressZone(e, reverse, serviceNames)
	case reverse == t.zones[zone].Name:
		// The range does not end on the boundary of a label, and the next boundary is the end of the
		// address. So the address is the apex of a reverse zone, and exists without PTR records too.
		e.set(reverse, uint16(zone), t.apexSets(serviceNames, endpointNames))
	case len(serviceNames)+len(endpointNames) == 0:
		e.remove(reverse)
	default:
		e.set(reverse, uint16(zone), []Set{packPTR(serviceNames, endpointNames)})
	}
}

// updateAddressZone updates the PTR records of an address that is a zone of its own. The node has
// no parent, because the names above it are not served here.
func (t *Table) updateAddressZone(e *edit, reverse string, names []string) {
	if len(names) == 0 {
		e.delete(reverse)
		return
	}
	e.put(newNode(reverse, AddressZone, t.apexSets(names, nil)))
}

// apexSets returns the record sets of the apex of a zone, with the PTR records of an address that is an
// apex.
func (t *Table) apexSets(serviceNames, endpointNames []string) []Set {
	sets := []Set{{Type: dns.TypeNS, Count: 1, Data: t.zones[0].MName}}
	if len(serviceNames)+len(endpointNames) > 0 {
		sets = append(sets, packPTR(serviceNames, endpointNames))
	}
	return sets
}

// packPTR packs the names of an address. Names of cluster IPs come first. If there are any, the
// names of endpoints at the same address are held back.
func packPTR(serviceNames, endpointNames []string) Set {
	slices.Sort(serviceNames)
	slices.Sort(endpointNames)
	serviceNames, endpointNames = slices.Compact(serviceNames), slices.Compact(endpointNames)
	s := Set{Type: dns.TypePTR, Count: uint16(min(len(serviceNames), maxRecords))}
	if len(serviceNames) == 0 {
		s.Count = uint16(min(len(endpointNames), maxRecords))
	}
	// This is nearly always the case. The string is shared with the node of that name.
	if len(serviceNames)+len(endpointNames) == 1 {
		s.Data = slices.Concat(serviceNames, endpointNames)[0]
		return s
	}
	s.Data = strings.Join(serviceNames, "") + strings.Join(endpointNames, "")
	return s
}

// unpackPTR is the inverse of packPTR. It tells the two kinds apart because the name of a service
// has fewer labels than the name of an endpoint.
func (t *Table) unpackPTR(s Set) (serviceNames, endpointNames []string) {
	data := s.Data
	for data != "" {
		n := nameLen(data)
		if t.isService(data[:n]) {
			serviceNames = append(serviceNames, data[:n])
		} else {
			endpointNames = append(endpointNames, data[:n])
		}
		data = data[n:]
	}
	return serviceNames, endpointNames
}

func (t *Table) isService(name string) bool {
	return Parent(Parent(name)) == svcLabel+t.zones[0].Name
}

// reverseZoneOf returns the index of the reverse zone of a name, or -1 if it is in none.
func (t *Table) reverseZoneOf(name string) int {
	for ; name != ""; name = Parent(name) {
		if i, ok := t.reverse[name]; ok {
			return i
		}
	}
	return -1
}

// set gives a name its record sets and makes it exist.
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
		n.children = have.children
	}
	e.put(n)
	if have == nil {
		e.addChild(Parent(name), zone)
	}
}

// addChild counts one more node below a name, which thereby exists. It goes up until it meets an
// existing name; the apex of a zone always exists.
func (e *edit) addChild(name string, zone uint16) {
	have := e.get(name)
	if have != nil {
		n := *have
		n.children++
		e.put(&n)
		return
	}
	e.put(&Node{name: name, zone: zone, children: 1})
	e.addChild(Parent(name), zone)
}

// remove removes the record sets of a name. The name itself is removed unless there are names below
// it.
func (e *edit) remove(name string) {
	have := e.get(name)
	switch {
	case have == nil || !have.exists:
		return
	case have.children > 0:
		e.put(&Node{name: have.name, zone: have.zone, children: have.children})
		return
	}
	e.delete(name)
	e.dropChild(Parent(name))
}

// dropChild counts one node less below a name. The name is removed if it existed only because of
// that node.
func (e *edit) dropChild(name string) {
	n := *e.get(name)
	n.children--
	if n.children == 0 && !n.exists {
		e.delete(name)
		e.dropChild(Parent(name))
		return
	}
	e.put(&n)
}
