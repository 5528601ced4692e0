package zone

import (
	"encoding/binary"
	"iter"
	"net/netip"

	"github.com/miekg/dns"
)

// Node is a name that exists. It never changes.
type Node struct {
	name   string
	sets   []Set // by type
	below  int32 // nodes whose parent this is
	zone   uint16
	exists bool // by itself, not only because of what is below
}

// inlineData is how much data of a set is kept beside the name.
const inlineData = 64

// newNode returns a node that exists by itself. What a question needs of it lies together, because in a large zone it is in no cache: the sets
// are in the same piece of memory as the node, and short data is in the same one as the name.
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
		if n.sets[i].short() {
			text += n.sets[i].Data
		}
	}
	n.name, text = text[:len(name)], text[len(name):]
	for i := range n.sets {
		if s := &n.sets[i]; s.short() {
			s.Data, text = text[:len(s.Data)], text[len(s.Data):]
		}
	}
	return n
}

// short says whether a set's data is kept beside the name. Names in it are names of other nodes, with which they share memory.
func (s *Set) short() bool {
	return (s.Type == dns.TypeA || s.Type == dns.TypeAAAA || s.Type == dns.TypeSRV) && len(s.Data) <= inlineData
}

// Name is the node's name in wire format and lower case.
func (n *Node) Name() string { return n.name }

// Zone is the index of the node's zone in Snapshot.Zones.
func (n *Node) Zone() int { return int(n.zone) }

// Sets are the record sets of the node but for the SOA of an apex; not to be changed.
func (n *Node) Sets() []Set { return n.sets }

// Set returns the records of one type, nil where there are none.
func (n *Node) Set(rrtype uint16) *Set {
	for i := range n.sets {
		if n.sets[i].Type == rrtype {
			return &n.sets[i]
		}
	}
	return nil
}

// Set is the records of one type at one name.
type Set struct {
	Type  uint16
	Count uint16 // records that are answered
	// Spare is how many of them, at the end, are answered only after all others: endpoints that
	// are published though they do not serve. It is less than Count.
	Spare uint16
	// Data is packed: addresses one after the other; names (PTR, CNAME, NS) in wire format one after the other; for SRV see SRV; TXT as one
	// record's data. There may be more than Count says: records held back.
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

// First is the first of the names of a PTR, CNAME or NS set.
func (s *Set) First() string { return s.Data[:nameLen(s.Data)] }

// nameLen is the length of the name that data starts with.
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
			addr, _ := netip.AddrFromSlice([]byte(s.Data[i*size : (i+1)*size])) // 4 or 16 bytes
			if !yield(addr) {
				return
			}
		}
	}
}

// AddrSize is the length of an address of type A or AAAA.
func AddrSize(rrtype uint16) int {
	if rrtype == dns.TypeAAAA {
		return 16
	}
	return 4
}

// SRV is a record of an SRV set. Its target is Label (in wire format, "" for none) before the name that is left when Strip bytes are taken
// from the owner's.
type SRV struct {
	Weight, Port uint16
	Label        string
}

// srvHeader is what stands before the label of each record: weight, port.
const srvHeader = 4

// Strip is how much of the owner's name does not belong to the targets of an SRV set.
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

// firstSRV unpacks the record that data starts with, and returns the data after it.
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

// srvSet packs records.
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
