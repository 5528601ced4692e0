package zone

import (
	"iter"
	"net/netip"
	"strings"
)

// Snapshot holds all names at one revision. It never changes.
type Snapshot struct {
	Revision uint64 // of the log
	Serial   uint32 // of the SOA records: the revision of the last change to any name
	Synced   bool   // whether the view is complete
	Zones    []Zone
	TTL      uint32 // of all records

	pods PodMode
	tree tree
}

// Zone is a zone that is served.
type Zone struct {
	Name  string // wire format, lower case
	MName string // primary name server, wire format
	RName string // mailbox, wire format
	// Reverse is true if the zone is for PTR records.
	Reverse bool
}

// AddressZone is the index of all zones that consist of one address: a cluster IP outside of all
// reverse ranges. The apex is the name of the address and the only name of such a zone.
const AddressZone = 1<<16 - 1

// ZoneAt returns the zone with that index. For AddressZone it is the zone that contains name.
func (s *Snapshot) ZoneAt(index int, name string) Zone {
	if index != AddressZone {
		return s.Zones[index]
	}
	for s.tree.get([]byte(name)) == nil && name != "" {
		name = Parent(name)
	}
	return Zone{Name: name, MName: s.Zones[0].MName, RName: s.Zones[0].RName, Reverse: true}
}

// Size returns the number of names.
func (s *Snapshot) Size() int { return s.tree.size }

// Get returns the node of a name in wire format and lower case, or nil if it does not exist.
func (s *Snapshot) Get(name []byte) *Node { return s.tree.get(name) }

// ZoneOf returns the index of the zone that contains a name, which may be AddressZone, or -1 if
// there is none. It searches from the root down, because most questions share the names near the
// root. All names below an apex belong to its zone, so the first name that exists decides.
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

// IsApex reports whether the node is the apex of its zone, which has the SOA record.
func (s *Snapshot) IsApex(n *Node) bool {
	return n.zone == AddressZone || n.name == s.Zones[n.zone].Name
}

// Nodes yields the nodes of one zone in any order. For AddressZone it yields the nodes of all zones
// that consist of one address.
func (s *Snapshot) Nodes(zone int) iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		for n := range s.tree.all() {
			if int(n.zone) == zone && !yield(n) {
				return
			}
		}
	}
}

// ZoneNamed returns the index of the zone of that name, or -1 if there is none.
func (s *Snapshot) ZoneNamed(name string) int {
	for i := range s.Zones {
		if s.Zones[i].Name == name {
			return i
		}
	}
	return -1
}

// InsecurePods reports whether names below pod.<zone> are answered without a look at pods.
func (s *Snapshot) InsecurePods() bool { return s.pods == PodsInsecure }

// InsecurePod returns the address that a name such as 10-1-2-3.default.pod.<zone> stands for, if
// such names are answered without a look at pods. The namespace must exist.
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

// InsecurePodSet returns the record set of a name of InsecurePod.
func InsecurePodSet(addr netip.Addr) Set { return addressSets([]netip.Addr{addr}, nil)[0] }
