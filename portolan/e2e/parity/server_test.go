package parity

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
)

// ports are the ports on which every pod listens, by TCP and UDP.
var ports = []uint16{8080, 8081}

// serve starts the pod's servers, which end with the test. A TCP server first sends its own name
// and the client's address, and then returns all data that it receives. A UDP server answers each
// datagram in the same way, with the datagram's size.
func (p *pod) serve() {
	p.scene.Helper()
	for _, port := range ports {
		p.listen(netip.AddrPortFrom(netip.IPv6Unspecified(), port)) // both families
	}
}

func (p *pod) listen(at netip.AddrPort) {
	p.scene.Helper()
	var lis net.Listener
	var packets net.PacketConn
	err := p.namespace.Do(func() (err error) {
		if lis, err = net.Listen("tcp", at.String()); err != nil {
			return err
		}
		packets, err = net.ListenPacket("udp", at.String())
		return err
	})
	if err != nil {
		p.scene.Fatalf("pod %s: %v", p.name, err)
	}
	p.scene.Cleanup(func() { _, _ = lis.Close(), packets.Close() })
	go p.serveTCP(lis, at.Port())
	go p.serveUDP(packets, at.Port())
}

func (p *pod) serveTCP(lis net.Listener, port uint16) {
	for {
		conn, err := lis.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = conn.Close() }()
			if _, err := fmt.Fprintln(conn, p.name, port, plain(conn.RemoteAddr())); err == nil {
				_, _ = io.Copy(conn, bufio.NewReader(conn))
			}
		}()
	}
}

func (p *pod) serveUDP(packets net.PacketConn, port uint16) {
	buffer := make([]byte, 64<<10)
	for {
		n, from, err := packets.ReadFrom(buffer)
		if err != nil {
			return
		}
		_, _ = packets.WriteTo([]byte(fmt.Sprintln(p.name, port, plain(from), n)), from)
	}
}

// plain returns an address, unmapped if it is an IPv4 one.
func plain(a net.Addr) netip.AddrPort {
	at := netip.MustParseAddrPort(a.String())
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}
