package zone

import (
	"encoding/binary"
	"iter"
	"net/netip"

	"github.com/miekg/dns"
)

// Node is a name that exists. It never changes.
type Node struct {
	name     string
	sets     []Set // ordered by type
	children int32 // number of child nodes
	zone     uint16
	exists   bool // the name exists by itself, not only because of names below it
}

// maxInline is the size in bytes up to which the data of a set is stored beside the name.
const maxInline = 64

// newNode returns a node that exists by itself. The fields that a question reads lie together,
// because in a large zone none of them is in a cache: the sets share an allocation with the node,
// and short data shares one with the name.
func newNode(name string, zone uint16, sets []Set) *Node {
	var n *Node
	switch len(sets) {
	case 1:
		both := &struct {
			Node
			sets [1]Set
		}{}
		n, both.Node.sets = &both.Node, both.sets[:]
	case 2:
		both := &struct {
			Node
			sets [2]Set
		}{}
		n, both.Node.sets = &both.Node, both.sets[:]
	default:
		n = &Node{sets: make([]Set, len(sets))}
	}
	copy(n.sets, sets)
	n.name, n.zone, n.exists = name, zone, true
	text := name
	for i := range n.sets {
		if n.sets[i].isInline() {
			text += n.sets[i].Data
		}
	}
	n.name, text = text[:len(name)], text[len(name):]
	for i := range n.sets {
		if s := &n.sets[i]; s.isInline() {
			s.Data, text = text[:len(s.Data)], text[len(s.Data):]
		}
	}
	return n
}

// isInline reports whether the set's data is stored beside the name. Sets of names are not, because
// they share memory with the names of other nodes.
func (s *Set) isInline() bool {
	return (s.Type == dns.TypeA || s.Type == dns.TypeAAAA || s.Type == dns.TypeSRV) && len(s.Data) <= maxInline
}

// Name returns the node's name in wire format and lower case.
func (n *Node) Name() string { return n.name }

// Zone returns the index of the node's zone in Snapshot.Zones.
func (n *Node) Zone() int { return int(n.zone) }

// Sets returns the record sets of the node, without the SOA record of an apex. The caller must not
// change them.
func (n *Node) Sets() []Set { return n.sets }

// Set returns the records of one type, or nil if there are none.
func (n *Node) Set(rrtype uint16) *Set {
	for i := range n.sets {
		if n.sets[i].Type == rrtype {
			return &n.sets[i]
		}
	}
	return nil
}

// Set holds the records of one type at one name.
type Set struct {
	Type  uint16
	Count uint16 // number of records that are answered
	// Fallback is the number of records at the end of the set that are answered only after all
	// others. They belong to endpoints that are published although they do not serve. It is less
	// than Count.
	Fallback uint16
	// Data is packed. Addresses follow each other, and so do names (PTR, CNAME, NS) in wire format.
	// For SRV records see SRV. TXT is the data of a single record. Data may hold more records than
	// Count; the records beyond Count are held back.
	Data string
}

// Names yields the names of a PTR, CNAME or NS set.
func (s *Set) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		rest := s.Data
		for range s.Count {
			n := nameLen(rest)
			if !yield(rest[:n]) {
				return
			}
			rest = rest[n:]
		}
	}
}

// First returns the first name of a PTR, CNAME or NS set.
func (s *Set) First() string { return s.Data[:nameLen(s.Data)] }

// nameLen returns the length of the name at the start of data.
func nameLen(data string) int {
	i := 0
	for data[i] != 0 {
		i += 1 + int(data[i])
	}
	return i + 1
}

// Addrs yields the addresses of an A or AAAA set.
func (s *Set) Addrs() iter.Seq[netip.Addr] {
	size := AddrSize(s.Type)
	return func(yield func(netip.Addr) bool) {
		for i := range int(s.Count) {
			addr, _ := netip.AddrFromSlice([]byte(s.Data[i*size : (i+1)*size])) // the slice has 4 or 16 bytes
			if !yield(addr) {
				return
			}
		}
	}
}

// AddrSize returns the length in bytes of an address of type A or AAAA.
func AddrSize(rrtype uint16) int {
	if rrtype == dns.TypeAAAA {
		return 16
	}
	return 4
}

// SRV is a record of an SRV set. Its target is Label (in wire format, "" if it has none) followed
// by the owner's name without its first Strip bytes.
type SRV struct {
	Weight, Port uint16
	Label        string
}

// srvHeader is the size in bytes of weight and port, which precede the label of each record.
const srvHeader = 4

// Strip returns the number of bytes at the start of the owner's name that do not belong to the
// targets of an SRV set.
func (s *Set) Strip() int { return int(s.Data[0]) }

// SRVs yields the records of an SRV set.
func (s *Set) SRVs() iter.Seq[SRV] {
	return func(yield func(SRV) bool) {
		rest := s.Data[1:]
		for range s.Count {
			var r SRV
			if r, rest = firstSRV(rest); !yield(r) {
				return
			}
		}
	}
}

// firstSRV unpacks the record at the start of data, and returns the data after it.
func firstSRV(data string) (r SRV, rest string) {
	end := srvHeader + 1 + int(data[srvHeader])
	r = SRV{
		Weight: uint16(data[0])<<8 | uint16(data[1]),
		Port:   uint16(data[2])<<8 | uint16(data[3]),
	}
	if end > srvHeader+1 {
		r.Label = data[srvHeader:end]
	}
	return r, data[end:]
}

// srvSet packs records into a set.
func srvSet(strip int, records []SRV) Set {
	data := []byte{byte(strip)}
	for _, r := range records {
		data = binary.BigEndian.AppendUint16(data, r.Weight)
		data = binary.BigEndian.AppendUint16(data, r.Port)
		if r.Label == "" {
			data = append(data, 0)
		}
		data = append(data, r.Label...)
	}
	return Set{Type: dns.TypeSRV, Count: uint16(len(records)), Data: string(data)}
}
