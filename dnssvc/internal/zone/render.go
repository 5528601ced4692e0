package zone

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// rendering holds the names of one object. It depends on that object only, so the rendering of an
// older version need not be kept: it is made again and compared.
type rendering struct {
	names map[string][]Set     // by name relative to the zone; a name without sets exists
	ptrs  map[netip.Addr][]ptr // in reverse zones
}

// ptr is a target of a PTR record, relative to the zone.
type ptr struct {
	name      string
	clusterIP bool // the target of a cluster IP; other targets of the address are held back
}

func newRendering() *rendering {
	return &rendering{names: map[string][]Set{}, ptrs: map[netip.Addr][]ptr{}}
}

// render returns the names of a service. It returns none if s is nil.
func (c Config) render(s *service) *rendering {
	r := newRendering()
	if s == nil || s.spec == nil {
		return r
	}
	base := label(s.name) + label(s.namespace) + svcLabel
	switch {
	case s.spec.external != "" && s.spec.alias == "":
		// An address is no alias, so the service has no names.
	case s.spec.alias != "":
		r.names[base] = []Set{{Type: dns.TypeCNAME, Count: 1, Data: s.spec.alias}}
	case s.spec.headless:
		r.addHeadless(base, s, c.EmptyHeadlessExists)
	default:
		r.addClusterIP(base, s)
	}
	return r
}

func (r *rendering) addClusterIP(base string, s *service) {
	r.names[base] = addressSets(s.spec.addrs, nil)
	for _, addr := range s.spec.addrs {
		r.ptrs[addr] = []ptr{{name: base, clusterIP: true}}
	}
	byName := map[string][]SRV{}
	var all []SRV
	for _, p := range s.spec.ports {
		record := SRV{Port: p.number}
		all = append(all, record)
		if labels := portLabels(p); labels != "" {
			byName[labels] = append(byName[labels], record)
		}
	}
	r.addSRVs(base, byName, all, srvForm{})
	r.addEndpoints(base, s)
}

func (r *rendering) addHeadless(base string, s *service, existsEmpty bool) {
	var addrs []netip.Addr
	byName := map[string][]SRV{}
	var all []SRV
	form := srvForm{fallback: s.notServingLabels()}
	for _, sl := range s.slices {
		for e := range sl.endpoints() {
			addrs = append(addrs, e.addr)
			if e.label() == "" {
				continue // the hostname is no valid label
			}
			form.weighted = form.weighted || e.weight != unweighted
			for _, p := range sl.ports {
				record := SRV{Port: p.number, Label: e.label(), Weight: 1}
				if e.weight != unweighted {
					record.Weight = uint16(e.weight)
				}
				all = append(all, record)
				if labels := portLabels(p); labels != "" {
					byName[labels] = append(byName[labels], record)
				}
			}
		}
	}
	if len(addrs) == 0 && !existsEmpty {
		return
	}
	r.names[base] = addressSets(addrs, s.notServingAddrs())
	r.addSRVs(base, byName, all, form)
	r.addEndpoints(base, s)
}

// portLabels returns the labels of a named port, which precede the name of its service. It returns
// "" if the port has no name or a name that is too long for a label.
func portLabels(p port) string {
	if first := label("_" + p.name); p.name != "" && first != "" {
		return first + label("_"+p.proto)
	}
	return ""
}

// addSRVs adds SRV records for each named port, and SRV records for all ports at the name of the
// service.
func (r *rendering) addSRVs(base string, byName map[string][]SRV, all []SRV, form srvForm) {
	if len(all) > 0 {
		r.names[base] = append(r.names[base], form.set(0, all))
	}
	for labels, records := range byName {
		r.names[labels+base] = []Set{form.set(len(labels), records)}
	}
}

// srvForm holds the properties that all SRV records of a service share.
type srvForm struct {
	weighted bool            // weighted by the endpoints; otherwise all have the same weight
	fallback map[string]bool // labels whose records come after all others
}

// set packs SRV records.
func (f srvForm) set(strip int, records []SRV) Set {
	slices.SortFunc(records, func(a, b SRV) int {
		return cmp.Or(compareBool(f.fallback[a.Label], f.fallback[b.Label]),
			strings.Compare(a.Label, b.Label), cmp.Compare(a.Port, b.Port), cmp.Compare(b.Weight, a.Weight))
	})
	// A label occurs in a slice of each family, and in several slices while its endpoint moves.
	records = slices.CompactFunc(records, func(a, b SRV) bool { return a.Label == b.Label && a.Port == b.Port })
	records = records[:min(len(records), maxRecords)]
	if !f.weighted {
		for i := range records {
			records[i].Weight = uint16(max(1, 100/len(records)))
		}
	}
	set := srvSet(strip, records)
	set.Fallback = fallbackAtEnd(records, func(r SRV) bool { return f.fallback[r.Label] })
	return set
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// fallbackAtEnd returns the number of fallback records at the end of a sorted set. It returns 0 if
// all records are fallbacks, because none of them is then less suitable than another.
func fallbackAtEnd[T any](sorted []T, fallback func(T) bool) uint16 {
	first := slices.IndexFunc(sorted, fallback)
	if first <= 0 {
		return 0
	}
	return uint16(len(sorted) - first)
}

// maxRecords is the largest number of records that the count of a set can hold. A message has room
// for far fewer.
const maxRecords = 65535

// addEndpoints adds the names of the endpoints, and the PTR records of their addresses.
func (r *rendering) addEndpoints(base string, s *service) {
	byLabel := map[string][]netip.Addr{}
	for _, sl := range s.slices {
		for e := range sl.endpoints() {
			if l := e.label(); l != "" && !slices.Contains(byLabel[l], e.addr) {
				byLabel[l] = append(byLabel[l], e.addr)
			}
		}
	}
	notServing := s.notServingAddrs()
	for l, addrs := range byLabel {
		r.names[l+base] = addressSets(addrs, notServing)
		for _, addr := range addrs {
			r.ptrs[addr] = append(r.ptrs[addr], ptr{name: l + base})
		}
	}
}

// addressSets packs addresses into an A set and an AAAA set, and leaves out an empty set. Addresses
// in fallback, which may be nil, come last.
func addressSets(addrs []netip.Addr, fallback map[netip.Addr]bool) []Set {
	addrs = slices.Clone(addrs)
	slices.SortFunc(addrs, func(a, b netip.Addr) int {
		return cmp.Or(cmp.Compare(a.BitLen(), b.BitLen()), compareBool(fallback[a], fallback[b]), a.Compare(b)) // IPv4 first
	})
	addrs = slices.Compact(addrs)
	split, _ := slices.BinarySearchFunc(addrs, false, func(a netip.Addr, _ bool) int {
		if a.Is4() {
			return -1
		}
		return 1
	})
	var sets []Set
	for i, part := range [][]netip.Addr{addrs[:split], addrs[split:]} {
		part = part[:min(len(part), maxRecords)]
		if len(part) == 0 {
			continue
		}
		data := make([]byte, 0, len(part)*part[0].BitLen()/8)
		for _, addr := range part {
			data = append(data, addr.AsSlice()...)
		}
		sets = append(sets, Set{
			Type: [...]uint16{dns.TypeA, dns.TypeAAAA}[i], Count: uint16(len(part)), Data: string(data),
			Fallback: fallbackAtEnd(part, func(a netip.Addr) bool { return fallback[a] }),
		})
	}
	return sets
}
