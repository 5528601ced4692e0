package packetfilter

import (
	"net/netip"
	"slices"

	"portolan.dev/nodeagent/dataplane/netfilter"
	"portolan.dev/nodeagent/plan"
)

// Remains is the content of the tables that an earlier process has left in the kernel, as far as the tables
// describe frontends. A plane that has lost its journal continues with it.
type Remains struct {
	Sources plan.Sources
	// Virtual are the virtual addresses outside of the ranges.
	Virtual map[netip.Addr]bool
	// Frontends are the frontends that have elements of their own.
	Frontends map[plan.Frontend]Remnant
}

// Remnant is the treatment of one frontend's packets.
type Remnant struct {
	StandIn                   netip.Addr // zero: external clients are not sent to another address
	LimitInside, LimitOutside bool
	DropInside, DropOutside   bool
	Allowed                   []netip.Prefix
	// Masquerade are the sources that are replaced if Explicit is set. Otherwise they follow from the range of
	// the address.
	Masquerade Class
	Explicit   bool
}

// ReadRemains reads the tables of a namespace. It is no error if there are none.
func ReadRemains(netns string) (*Remains, error) {
	t, err := ReadTables(netns)
	if err != nil {
		return nil, err
	}
	return t.remains(), nil
}

func (t *Tables) remains() *Remains {
	r := &Remains{Virtual: map[netip.Addr]bool{}, Frontends: map[plan.Frontend]Remnant{}}
	r.Sources = plan.Sources{Pods: t.prefixes(podSet), Node: t.prefixes(nodeSet)}
	for e := range t.elements {
		if e.Set == VirtualSet {
			if addr, ok := netip.AddrFromSlice([]byte(e.Key)); ok {
				r.Virtual[addr] = true
			}
			continue
		}
		if at, ok := frontendOf([]byte(e.Key), e.V6); ok {
			if one := r.Frontends[at]; one.add(&e) {
				r.Frontends[at] = one
			}
		}
	}
	return r
}

// add adds the meaning of an element, and reports whether it has any.
func (r *Remnant) add(e *Element) bool {
	switch e.Set {
	case LimitInside:
		r.LimitInside = true
	case LimitOutside:
		r.LimitOutside = true
	case DropInside:
		r.DropInside = true
	case DropOutside:
		r.DropOutside = true
	case SplitMap:
		r.StandIn, _ = netip.AddrFromSlice([]byte(e.Value))
	case MasqueradeTCP, MasqueradeUDP, MasqueradeSCTP:
		i := slices.Index(masqueradeChains[:], e.Value)
		if i < 0 {
			return false
		}
		r.Masquerade, r.Explicit = Class(i), true
	case AllowedSet:
		r.Allowed = append(r.Allowed, allowedOf(e)...)
	default:
		return false
	}
	return true
}

// allowedOf is the inverse of Allowed.
func allowedOf(e *Element) []netip.Prefix {
	size := addrLen(e.V6)
	if len(e.Key) < size || len(e.End) < size {
		return nil
	}
	first, ok := netip.AddrFromSlice([]byte(e.Key[len(e.Key)-size:]))
	last, ok2 := netip.AddrFromSlice([]byte(e.End[len(e.End)-size:]))
	if !ok || !ok2 {
		return nil
	}
	return netfilter.AddrRange{First: first, Last: last}.Prefixes()
}

// prefixes returns the ranges in a set of intervals. An interval has an element for its first address, and
// one for the address after its last.
func (t *Tables) prefixes(set Set) (out []netip.Prefix) {
	for _, v6 := range []bool{false, true} {
		var bounds []Element
		for e := range t.elements {
			if e.Set == set && e.V6 == v6 {
				bounds = append(bounds, e)
			}
		}
		slices.SortFunc(bounds, func(a, b Element) int { return slices.Compare([]byte(a.Key), []byte(b.Key)) })
		for i, e := range bounds {
			first, ok := netip.AddrFromSlice([]byte(e.Key))
			if !ok || e.Value == intervalEnd {
				continue
			}
			r := netfilter.AddrRange{First: first, Last: lastAddr(v6)}
			if i+1 < len(bounds) {
				if end, ok := netip.AddrFromSlice([]byte(bounds[i+1].Key)); ok {
					r.Last = end.Prev()
				}
			}
			out = append(out, r.Prefixes()...)
		}
	}
	return out
}

// lastAddr returns the last address of a family.
func lastAddr(v6 bool) netip.Addr {
	if v6 {
		return netip.AddrFrom16([16]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	}
	return netip.AddrFrom4([4]byte{0xff, 0xff, 0xff, 0xff})
}

// MasqueradeOf returns the masquerading of a server with clients in the given classes, if the sources of the
// classes in c are replaced. If no masquerading fits, it returns the one that replaces all sources, because
// then the server's answers find their way in any case.
func MasqueradeOf(c, clients Class, podsKnown bool) plan.Masquerade {
	for _, m := range []plan.Masquerade{plan.MasqueradeNever, plan.MasqueradeOutside, plan.MasqueradeAlways} {
		if Classes(m, podsKnown)&clients == c&clients {
			return m
		}
	}
	return plan.MasqueradeAlways
}
