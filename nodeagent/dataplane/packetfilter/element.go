package packetfilter

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"portolan.dev/nodeagent/dataplane/netfilter"
	"portolan.dev/nodeagent/plan"
)

// Set is the name of a set or map of the packet filter.
type Set string

// The sets. The key of a set of frontends is address, protocol, port.
const (
	podSet       Set = "pods"         // sources that are pods
	nodeSet      Set = "nodes"        // sources that are this node
	rangeSet     Set = "ranges"       // virtual addresses: whole ranges
	standInSet   Set = "stand-ins"    // ranges that no client may use directly
	VirtualSet   Set = "virtual"      // virtual addresses outside of the ranges
	hairpinSet   Set = "loop"         // pods that use a virtual address, as source and destination
	turnSet      Set = "turn"         // incoming devices of packets, as the first and the second
	SplitMap     Set = "split"        // frontends: the stand-in address for external clients
	DropInside   Set = "drop-inside"  // frontends that drop packets of internal clients
	DropOutside  Set = "drop-outside" // the same for external clients
	LimitInside  Set = "limit-inside" // frontends with internal clients limited to AllowedSet
	LimitOutside Set = "limit-outside"
	LimitNode    Set = "limit-node" // frontends that this node itself may not use
	AllowedSet   Set = "allowed"    // frontends with ranges of sources
	DeniedSet    Set = "denied"     // the same, to count clients outside of the ranges
	RefuseSet    Set = "refuse"     // frontends without a server that the balancer does not refuse itself
)

// The maps from frontends to the chain for the sources to masquerade. There is one for each protocol,
// because nft takes the port that a connection was opened to only in a rule for one protocol.
const (
	MasqueradeTCP  Set = "masquerade-tcp"
	MasqueradeUDP  Set = "masquerade-udp"
	MasqueradeSCTP Set = "masquerade-sctp"
)

var masqueradeMaps = map[plan.Protocol]Set{plan.TCP: MasqueradeTCP, plan.UDP: MasqueradeUDP, plan.SCTP: MasqueradeSCTP}

// masquerades reports whether it is one of the maps for masquerading.
func (s Set) masquerades() bool {
	return s == MasqueradeTCP || s == MasqueradeUDP || s == MasqueradeSCTP
}

// Element is an element of a set. Elements are compared by value.
type Element struct {
	V6    bool
	Set   Set
	Key   string
	End   string // end of a range of keys
	Value string // in a map: an address, or the name of a chain
}

// Frontend returns an element with a frontend as its key.
func Frontend(set Set, f plan.Frontend) Element {
	return Element{V6: f.Addr.Addr().Is6(), Set: set, Key: frontendKey(f)}
}

// Masquerade returns the element that replaces the sources of a frontend's clients in the given
// classes.
func Masquerade(f plan.Frontend, classes Class) Element {
	e := Frontend(masqueradeMaps[f.Protocol], f)
	e.Value = classes.chain()
	return e
}

// Split returns the element that sends external clients to a stand-in for the frontend's address.
func Split(f plan.Frontend, standIn netip.Addr) Element {
	e := Frontend(SplitMap, f)
	e.Value = string(standIn.AsSlice())
	return e
}

// Virtual returns the element for an address that only serves frontends.
func Virtual(addr netip.Addr) Element {
	return Element{V6: addr.Is6(), Set: VirtualSet, Key: string(addr.AsSlice())}
}

// Allowed returns the elements for the sources that may use a frontend.
func Allowed(f plan.Frontend, prefixes []netip.Prefix) []Element {
	var out []Element
	for _, r := range netfilter.MergePrefixes(prefixes, f.Addr.Addr().Is6()) {
		e := Frontend(AllowedSet, f)
		e.End = e.Key + string(r.Last.AsSlice())
		e.Key += string(r.First.AsSlice())
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

// frontendOf is the inverse of frontendKey.
func frontendOf(key []byte, v6 bool) (plan.Frontend, bool) {
	size := addrLen(v6)
	if len(key) < size+6 {
		return plan.Frontend{}, false
	}
	addr, ok := netip.AddrFromSlice(key[:size])
	port := binary.BigEndian.Uint16(key[size+4:])
	return plan.Frontend{Addr: netip.AddrPortFrom(addr, port), Protocol: plan.Protocol(key[size])}, ok
}

func addrLen(v6 bool) int {
	if v6 {
		return 16
	}
	return 4
}

// Class is a set of kinds of sources.
type Class uint8

// The kinds of sources.
const (
	Pods Class = 1 << iota
	Node
	Outside
	// SameDevice are pods with packets that leave by the device on which they arrived. The backend
	// is then on the same device as its client and would answer it directly. If the ranges of pods
	// are unknown, SameDevice are all sources except the node.
	SameDevice
	allSources = Pods | Node | Outside
	allClasses = allSources | SameDevice
	// InternalClasses are the classes of internal clients.
	InternalClasses = Pods | Node | SameDevice
)

// PodsKnown reports whether there are ranges of pods of a family.
func PodsKnown(pods []netip.Prefix, v6 bool) bool {
	return slices.ContainsFunc(pods, func(p netip.Prefix) bool { return p.Addr().Is6() == v6 })
}

// RangeClasses returns the classes that are masqueraded in the ranges of virtual addresses unless a
// frontend overrides it. They match the plan for cluster IPs, so that most frontends need no
// element at all.
func RangeClasses(podsKnown bool) Class { return Classes(plan.MasqueradeOutside, podsKnown) }

var masqueradeChains = func() (names [allClasses + 1]string) {
	for c := range names {
		names[c] = fmt.Sprintf("masquerade-%d", c)
	}
	return names
}()

func (c Class) chain() string { return masqueradeChains[c] }

// Classes returns the sources that a virtual server masquerades. If the ranges of pods are unknown,
// external clients cannot be told from pods, and like upstream only the node is masqueraded.
func Classes(m plan.Masquerade, podsKnown bool) Class {
	switch {
	case m == plan.MasqueradeAlways:
		return allSources
	case m == plan.MasqueradeOutside && podsKnown:
		return Node | Outside | SameDevice
	case m == plan.MasqueradeOutside:
		return Node | SameDevice
	}
	return 0
}
