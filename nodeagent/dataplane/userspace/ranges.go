package userspace

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"portolan.dev/nodeagent/dataplane"
)

// mayListen reports whether the plane may listen at an address.
func (p *Plane) mayListen(addr netip.Addr) bool {
	return Within(p.opts.Ranges, netip.PrefixFrom(addr, addr.BitLen()))
}

// Within reports whether a plane with these ranges may listen at all addresses of r.
func Within(ranges []netip.Prefix, r netip.Prefix) bool {
	return len(ranges) == 0 || slices.ContainsFunc(ranges, func(p netip.Prefix) bool {
		return p.Bits() <= r.Bits() && p.Contains(r.Addr())
	})
}

// errOutside returns the error for a frontend at an address where the plane may not listen.
func (p *Plane) errOutside(addr netip.Addr) error {
	texts := make([]string, len(p.opts.Ranges))
	for i, r := range p.opts.Ranges {
		texts[i] = r.String()
	}
	return fmt.Errorf("%s is outside of the ranges in which this node listens (%s): %w", addr, strings.Join(texts, ", "), dataplane.ErrNotSupported)
}

const outsideRemedy = "choose an address in these ranges, or let the agent listen there by -userspace-ranges (portolan dev: --insecure)"
