package planes

import (
	"net/netip"
	"slices"

	corev1 "portolan.dev/api/core/v1"
)

// Frontend is an address and port at which a service is reached.
type Frontend struct {
	Address  netip.AddrPort
	Protocol corev1.Protocol
}

// String returns address:port/PROTOCOL.
func (f Frontend) String() string {
	return f.Address.String() + "/" + protocolName(f.Protocol)
}

// Content is the content of a data plane: the backends (host:port, sorted) of each frontend.
type Content map[Frontend][]string

func (c Content) add(at Frontend, backend string) {
	if !slices.Contains(c[at], backend) {
		c[at] = append(c[at], backend)
		slices.Sort(c[at])
	}
}

func protocolName(p corev1.Protocol) string {
	switch p {
	case corev1.Protocol_PROTOCOL_TCP:
		return "TCP"
	case corev1.Protocol_PROTOCOL_UDP:
		return "UDP"
	}
	return p.String()
}
