package zone

import (
	"iter"
	"net/netip"
	"strings"
)

// Snapshot is all names at one revision. It never changes.
type Snapshot struct {
	Revision uint64 // of the log
	Serial   uint32 // of the SOA records: the revision of the last change to any name
	Synced   bool   // whether a complete view was ever there
	Zones    []Zone
	TTL      uint32 // of all records

	pods PodMode
	tree tree
}

// Zone is a zone that is served.
type Zone struct {
	Name  string // wire format, lower case
	MName string // the primary's name, wire format
	RName string // the mailbox, wire format
	// Reverse says that the zone is for PTR records.
	Reverse bool
}

// Own is the index of zones that are one address: that of a cluster IP outside of all reverse ranges.
// The apex is the name of the address, and there is nothing else in such a zone.
const Own = 1<<16 - 1

// ZoneAt returns the zone with that index, in which name is.
func (s *Snapshot) ZoneAt(index int, name string) Zone {
	if index != Own {
		return s.Zones[index]
	}
	for s.tree.get([]byte(name)) == nil && name != "" {
		name = Parent(name)
	}
	return Zone{Name: name, MName: s.Zones[0].MName, RName: s.Zones[0].RName, Reverse: true}
}

// Size is the number of names.
func (s *Snapshot) Size() int { return s.tree.size }

// Get returns the node of a name in wire format and lower case, nil where there is none.
func (s *Snapshot) Get(name []byte) *Node { return s.tree.get(name) }

// ZoneOf returns the index of the zone that a name is in, Own included, -1 for none. It looks from the root down, where the names are that everybody asks for:
// the names below a zone's apex are its own, so the first that exists decides.
func (s *Snapshot) ZoneOf(name []byte) int {
	var labels [maxName / 2]uint8
	depth := 0
	for at := 0; name[at] != 0; at += 1 + int(name[at]) {
		labels[depth] = uint8(at)
		depth++
	}
	for depth--; depth >= 0; depth-- {
		if n := s.tree.get(name[labels[depth]:]); n != nil {
			return int(n.zone)
		}
	}
	return -1
}

// Apex says whether the node is the apex of its zone, where the SOA is.
func (s *Snapshot) Apex(n *Node) bool { return n.zone == Own || n.name == s.Zones[n.zone].Name }

// Nodes yields the nodes of one zone, or of all that are one address, in any order.
func (s *Snapshot) Nodes(zone int) iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		for n := range s.tree.all() {
			if int(n.zone) == zone && !yield(n) {
				return
			}
		}
	}
}

// ZoneNamed returns the index of the zone of that name, -1 where there is none.
func (s *Snapshot) ZoneNamed(name string) int {
	for i := range s.Zones {
		if s.Zones[i].Name == name {
			return i
		}
	}
	return -1
}

// InsecurePods says whether names below pod.<zone> are answered without looking.
func (s *Snapshot) InsecurePods() bool { return s.pods == PodsInsecure }

// InsecurePod returns the address that a name such as 10-1-2-3.default.pod.<zone> stands for where such names are answered without looking.
// The namespace must exist.
func (s *Snapshot) InsecurePod(name string) (addr netip.Addr, ok bool) {
	if s.pods != PodsInsecure {
		return netip.Addr{}, false
	}
	namespace := s.tree.get([]byte(Parent(name)))
	if namespace == nil || !strings.HasPrefix(Parent(namespace.name), podLabel) {
		return netip.Addr{}, false
	}
	if zone := Parent(Parent(namespace.name)); zone != s.Zones[namespace.zone].Name {
		return netip.Addr{}, false
	}
	return parseDashed(name[1 : 1+int(name[0])])
}

// InsecurePodSet is the record set of such a name.
func InsecurePodSet(addr netip.Addr) Set { return addressSets([]netip.Addr{addr}, nil)[0] }
