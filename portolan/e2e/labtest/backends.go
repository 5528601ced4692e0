package labtest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// ServeBackends makes a namespace with all addresses of pods. In it Echo serves each of the given
// ports of every pod.
func (n *Network) ServeBackends(ports []int32) {
	n.t.Helper()
	pods, _ := n.Attach("pods", Pods[:]...)
	for _, p := range Pods {
		pods.Local(n.t, p)
	}
	for _, port := range ports {
		var lis net.Listener
		err := pods.Do(func() (err error) {
			lis, err = net.Listen("tcp", netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(port)).String())
			return err
		})
		if err != nil {
			n.t.Fatal(err)
		}
		n.t.Cleanup(func() { _ = lis.Close() })
		go Echo(lis)
	}
}

// Echo answers connections until the listener is closed. It sends the address at which it was
// reached, and then repeats each line that it receives.
func Echo(lis net.Listener) {
	for {
		conn, err := lis.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			go echo(conn)
		}
	}
}

func echo(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	at, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil {
		return
	}
	if _, err := fmt.Fprintln(conn, netip.AddrPortFrom(at.Addr().Unmap(), at.Port())); err != nil {
		return
	}
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		if _, err := fmt.Fprintln(conn, lines.Text()); err != nil {
			return
		}
	}
}
