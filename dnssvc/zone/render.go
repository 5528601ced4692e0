package zone

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// rendering is what one object contributes to the names. It depends on nothing but the object, so that what an older version contributed
// need not be kept: it is rendered again and compared.
type rendering struct {
	names map[string][]Set     // by name relative to the zone; a name without sets exists
	ptrs  map[netip.Addr][]ptr // in reverse zones
}

// ptr is the name of an address, relative to the zone.
type ptr struct {
	name string
	lead bool // a cluster IP: other names of the address are held back
}

func newRendering() *rendering {
	return &rendering{names: map[string][]Set{}, ptrs: map[netip.Addr][]ptr{}}
}

// render gives the names of a service; none for nil.
func (c Config) render(s *service) *rendering {
	r := newRendering()
	if s == nil || s.spec == nil {
		return r
	}
	base := label(s.name) + label(s.namespace) + svcLabel
	switch {
	case s.spec.external != "" && s.spec.alias == "":
		// It has no names, so that it is absent.
	case s.spec.alias != "":
		r.names[base] = []Set{{Type: dns.TypeCNAME, Count: 1, Data: s.spec.alias}}
	case s.spec.headless:
		r.headless(base, s, c.EmptyHeadlessExists)
	default:
		r.clusterIP(base, s)
	}
	return r
}

func (r *rendering) clusterIP(base string, s *service) {
	r.names[base] = addressSets(s.spec.addrs, nil)
	for _, addr := range s.spec.addrs {
		r.ptrs[addr] = []ptr{{name: base, lead: true}}
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
	r.services(base, byName, all, srvForm{})
	r.endpoints(base, s)
}

func (r *rendering) headless(base string, s *service, existsEmpty bool) {
	var addrs []netip.Addr
	byName := map[string][]SRV{}
	var all []SRV
	form := srvForm{spare: s.spareLabels()}
	for _, sl := range s.slices {
		for e := range sl.endpoints() {
			addrs = append(addrs, e.addr)
			if e.label() == "" {
				continue // a hostname that is no label
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
	r.names[base] = addressSets(addrs, s.spareAddrs())
	r.services(base, byName, all, form)
	r.endpoints(base, s)
}

// portLabels is what a named port puts before the name of its service; "" for a port without a name, or with one that is too long for it.
func portLabels(p port) string {
	if first := label("_" + p.name); p.name != "" && first != "" {
		return first + label("_"+p.proto)
	}
	return ""
}

// services adds the SRV records: of each named port, and of all ports at the name of the service.
func (r *rendering) services(base string, byName map[string][]SRV, all []SRV, form srvForm) {
	if len(all) > 0 {
		r.names[base] = append(r.names[base], form.set(0, all))
	}
	for labels, records := range byName {
		r.names[labels+base] = []Set{form.set(len(labels), records)}
	}
}

// srvForm says how the SRV records of a service are written.
type srvForm struct {
	weighted bool            // by the endpoints; otherwise all have the same weight
	spare    map[string]bool // labels of endpoints that come after all others
}

// set packs SRV records.
func (f srvForm) set(strip int, records []SRV) Set {
	slices.SortFunc(records, func(a, b SRV) int {
		return cmp.Or(compareBool(f.spare[a.Label], f.spare[b.Label]),
			strings.Compare(a.Label, b.Label), cmp.Compare(a.Port, b.Port), cmp.Compare(b.Weight, a.Weight))
	})
	// One name may stand in a slice of each family, and in several while it moves between them.
	records = slices.CompactFunc(records, func(a, b SRV) bool { return a.Label == b.Label && a.Port == b.Port })
	records = records[:min(len(records), maxRecords)]
	if !f.weighted {
		for i := range records {
			records[i].Weight = uint16(max(1, 100/len(records)))
		}
	}
	set := srvSet(strip, records)
	set.Spare = spareAtEnd(records, func(r SRV) bool { return f.spare[r.Label] })
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

// spareAtEnd counts the spare records of a sorted set. Where there are no others they are as good
// as any, so that it returns 0.
func spareAtEnd[T any](sorted []T, spare func(T) bool) uint16 {
	first := slices.IndexFunc(sorted, spare)
	if first <= 0 {
		return 0
	}
	return uint16(len(sorted) - first)
}

// maxRecords bounds a set to what its count can say; far less fits into a message.
const maxRecords = 65535

// endpoints adds the names of the endpoints, and to their addresses those names.
func (r *rendering) endpoints(base string, s *service) {
	byLabel := map[string][]netip.Addr{}
	for _, sl := range s.slices {
		for e := range sl.endpoints() {
			if l := e.label(); l != "" && !slices.Contains(byLabel[l], e.addr) {
				byLabel[l] = append(byLabel[l], e.addr)
			}
		}
	}
	spare := s.spareAddrs()
	for l, addrs := range byLabel {
		r.names[l+base] = addressSets(addrs, spare)
		for _, addr := range addrs {
			r.ptrs[addr] = append(r.ptrs[addr], ptr{name: l + base})
		}
	}
}

// addressSets packs addresses into an A and an AAAA set, each left out where it would be empty.
// Those in spare, which may be nil, come last.
func addressSets(addrs []netip.Addr, spare map[netip.Addr]bool) []Set {
	addrs = slices.Clone(addrs)
	slices.SortFunc(addrs, func(a, b netip.Addr) int {
		return cmp.Or(cmp.Compare(a.BitLen(), b.BitLen()), compareBool(spare[a], spare[b]), a.Compare(b)) // IPv4 first
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
			Spare: spareAtEnd(part, func(a netip.Addr) bool { return spare[a] }),
		})
	}
	return sets
}
