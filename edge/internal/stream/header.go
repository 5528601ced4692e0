package stream

import (
	"net"
	"net/netip"

	"github.com/pires/go-proxyproto"
)

// format returns the PROXY header for a client's connection.
func format(version Header, client, local netip.AddrPort) ([]byte, error) {
	from, to := net.TCPAddrFromAddrPort(client), net.TCPAddrFromAddrPort(local)
	return proxyproto.HeaderProxyFromAddrs(byte(version), from, to).Format()
}
