package server

import (
	"encoding/binary"
	"net/netip"
)

// clients is a set of address ranges. The source of every question by UDP is looked up in it. IPv4,
// the most frequent case, is compared as numbers, because a netip.Prefix would take as long as the
// whole answer.
type clients struct {
	v4 []range4
	v6 []netip.Prefix
}

type range4 struct{ mask, network uint32 }

func newClients(prefixes []netip.Prefix) clients {
	var c clients
	for _, p := range prefixes {
		if p = p.Masked(); p.Addr().Is4() {
			c.v4 = append(c.v4, range4{mask: uint32(0xffffffff << (32 - p.Bits())), network: toUint32(p.Addr())})
		} else {
			c.v6 = append(c.v6, p)
		}
	}
	return c
}

func toUint32(addr netip.Addr) uint32 {
	raw := addr.As4()
	return binary.BigEndian.Uint32(raw[:])
}

func (c *clients) empty() bool { return len(c.v4)+len(c.v6) == 0 }

func (c *clients) contains(addr netip.Addr) bool {
	if addr.Is4() {
		n := toUint32(addr)
		for _, r := range c.v4 {
			if n&r.mask == r.network {
				return true
			}
		}
		return false
	}
	for _, p := range c.v6 {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
