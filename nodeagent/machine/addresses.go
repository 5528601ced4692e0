package machine

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// interfaceAddresses returns the unicast addresses of the machine, IPv4 first.
func interfaceAddresses() ([]netip.Addr, error) {
	found, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("addresses of interfaces: %w", err)
	}
	var out []netip.Addr
	for _, a := range found {
		prefix, err := netip.ParsePrefix(a.String())
		if err == nil {
			out = append(out, prefix.Addr().Unmap())
		}
	}
	slices.SortStableFunc(out, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() })
	return out, nil
}
