package kernel

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"

	"portolan.dev/nodeagent/plan"
)

// Set names a set or map of the packet filter.
type Set string

// The sets. Where a set is about frontends its key is address, protocol, port.
const (
	podSet        Set = "pods"         // sources that are pods
	nodeSet       Set = "nodes"        // sources that are this node
	rangeSet      Set = "ranges"       // virtual addresses: whole ranges
	standInSet    Set = "stand-ins"    // ranges that nobody may ask for directly
	VirtualSet    Set = "virtual"      // virtual addresses outside of the ranges
	MasqueradeMap Set = "masquerade"   // frontends: whose source is replaced
	loopSet       Set = "loop"         // pods that ask at a virtual address, as source and destination
	turnSet       Set = "turn"         // devices that packets came by, as the first and the second
	SplitMap      Set = "split"        // frontends: the stand-in address for clients outside
	DropInside    Set = "drop-inside"  // frontends that are silent to clients inside
	DropOutside   Set = "drop-outside" // and outside
	LimitInside   Set = "limit-inside" // frontends whose clients inside must be in AllowedSet
	LimitOutside  Set = "limit-outside"
	LimitNode     Set = "limit-node" // frontends that this node itself may not use
	AllowedSet    Set = "allowed"    // frontends with ranges of sources
	DeniedSet     Set = "denied"     // frontends with ranges of sources, to count who is in none
	RefuseSet     Set = "refuse"     // frontends that nobody serves, where the balancer does not say so
)

// Element is an element of a set. Elements are values: two that are the same
// are one element.
type Element struct {
	V6    bool
	Set   Set
	Key   string
	End   string // of a range of keys
	Value string // of a map: an address, or the name of a chain
}

// Frontend is an element that is about a frontend.
func Frontend(set Set, f plan.Frontend) Element {
	return Element{V6: f.Addr.Addr().Is6(), Set: set, Key: frontendKey(f)}
}

// Masquerade replaces the sources of clients of a frontend who are in the
// classes given.
func Masquerade(f plan.Frontend, classes Class) Element {
	e := Frontend(MasqueradeMap, f)
	e.Value = classes.chain()
	return e
}

// Split sends clients outside to a stand-in for the frontend's address.
func Split(f plan.Frontend, standIn netip.Addr) Element {
	e := Frontend(SplitMap, f)
	e.Value = string(standIn.AsSlice())
	return e
}

// Virtual is an address that only frontends are to be reached at.
func Virtual(addr netip.Addr) Element {
	return Element{V6: addr.Is6(), Set: VirtualSet, Key: string(addr.AsSlice())}
}

// Allowed are the sources that may use a frontend.
func Allowed(f plan.Frontend, prefixes []netip.Prefix) []Element {
	var out []Element
	for _, r := range merge(prefixes, f.Addr.Addr().Is6()) {
		e := Frontend(AllowedSet, f)
		e.End = e.Key + string(r.last.AsSlice())
		e.Key += string(r.first.AsSlice())
		out = append(out, e)
	}
	return out
}

func frontendKey(f plan.Frontend) string {
	var buf [24]byte
	key := buf[:0]
	if addr := f.Addr.Addr(); addr.Is4() {
		v4 := addr.As4()
		key = append(key, v4[:]...)
	} else {
		v6 := addr.As16()
		key = append(key, v6[:]...)
	}
	key = append(key, byte(f.Protocol), 0, 0, 0)
	key = binary.BigEndian.AppendUint16(key, f.Addr.Port())
	return string(append(key, 0, 0))
}

// Class is a set of kinds of sources.
type Class uint8

// The kinds of sources.
const (
	Pods Class = 1 << iota
	Node
	Outside
	// Turning are pods, or where their ranges are not known all sources but the
	// node, whose packets leave by the device that they came by: the backend is
	// beside its client and would answer it directly.
	Turning
	everybody  = Pods | Node | Outside
	allClasses = everybody | Turning
)

// rangeClasses are those whose source is replaced in the ranges of virtual
// addresses, unless a frontend has it otherwise. For cluster IPs it is that, so
// that most frontends take no element at all.
func rangeClasses(podsKnown bool) Class { return classes(plan.MasqueradeOutside, podsKnown) }

var masqueradeChains = func() (names [allClasses + 1]string) {
	for c := range names {
		names[c] = fmt.Sprintf("masquerade-%d", c)
	}
	return names
}()

func (c Class) chain() string { return masqueradeChains[c] }

// classes are the sources that a virtual server hides. Without ranges of pods
// nobody can be told from them, and upstream hides the node alone.
func classes(m plan.Masquerade, podsKnown bool) Class {
	switch {
	case m == plan.MasqueradeAlways:
		return everybody
	case m == plan.MasqueradeOutside && podsKnown:
		return Node | Outside | Turning
	case m == plan.MasqueradeOutside:
		return Node | Turning
	}
	return 0
}

// Ranges are address ranges that do not overlap.
type addrRange struct{ first, last netip.Addr }

// merge turns the prefixes of one family into ranges, of which none touches
// another: the kernel refuses overlaps.
func merge(prefixes []netip.Prefix, v6 bool) []addrRange {
	var all []addrRange
	for _, p := range prefixes {
		if p.Addr().Is6() == v6 {
			all = append(all, addrRange{p.Masked().Addr(), lastOf(p)})
		}
	}
	slices.SortFunc(all, func(a, b addrRange) int { return a.first.Compare(b.first) })
	var out []addrRange
	for _, r := range all {
		if n := len(out); n > 0 && (!out[n-1].last.Less(r.first) || out[n-1].last.Next() == r.first) {
			if out[n-1].last.Less(r.last) {
				out[n-1].last = r.last
			}
			continue
		}
		out = append(out, r)
	}
	return out
}

func lastOf(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	addr, _ := netip.AddrFromSlice(b) // the length is right
	return addr
}

// ranges are the elements of a set of ranges: of each its start, and what comes
// after its end.
func ranges(prefixes []netip.Prefix, v6 bool) []nftables.SetElement {
	var out []nftables.SetElement
	for _, r := range merge(prefixes, v6) {
		out = append(out, nftables.SetElement{Key: r.first.AsSlice()})
		if next := r.last.Next(); next.IsValid() { // a range up to the last address has no end
			out = append(out, nftables.SetElement{Key: next.AsSlice(), IntervalEnd: true})
		}
	}
	return out
}
