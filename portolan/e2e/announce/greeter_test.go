package announce

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"

	corev1 "portolan.dev/api/core/v1"
)

// greeterPort is the port of the backend of edges.
const greeterPort = 8090

// The addresses of the backend of edges, which is on the hub.
var greeterAt = [2]netip.Addr{netip.MustParseAddr("172.31.0.1"), netip.MustParseAddr("fd00:31::1")}

// serveGreeter serves the backend of edges. It greets each connection with the name of the edge's node
// and the client's address, which it has from the PROXY header, and sends back each line.
func (l *edges) serveGreeter(t *testing.T) {
	t.Helper()
	for _, addr := range greeterAt {
		var lis net.Listener
		err := l.Hub.Do(func() (err error) {
			lis, err = net.Listen("tcp", netip.AddrPortFrom(addr, greeterPort).String())
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = lis.Close() })
		go l.greet(&proxyproto.Listener{Listener: lis, ReadHeaderTimeout: 10 * time.Second})
	}
	port := int32(greeterPort)
	l.apply(t, slice("web-4", corev1.AddressType_ADDRESS_TYPE_IPV4, greeterAt[0].String(), &port))
	l.apply(t, slice("web-6", corev1.AddressType_ADDRESS_TYPE_IPV6, greeterAt[1].String(), &port))
}

func (l *edges) greet(lis *proxyproto.Listener) {
	for {
		conn, err := lis.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			go l.echo(conn.(*proxyproto.Conn))
		}
	}
}

func (l *edges) echo(conn *proxyproto.Conn) {
	defer func() { _ = conn.Close() }()
	if h := conn.ProxyHeader(); h == nil || h.Version != 2 {
		return
	}
	edge := netip.MustParseAddrPort(conn.Raw().RemoteAddr().String()).Addr()
	for _, node := range l.Nodes {
		if edge == node.Addresses[0] || edge == node.Addresses[1] {
			client := netip.MustParseAddrPort(conn.RemoteAddr().String()).Addr()
			if _, err := fmt.Fprintln(conn, node.Name, client); err != nil {
				return
			}
		}
	}
	for lines := bufio.NewReader(conn); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		if _, err := io.WriteString(conn, line); err != nil {
			return
		}
	}
}
