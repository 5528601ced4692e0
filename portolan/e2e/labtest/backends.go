package labtest

import (
	"fmt"
	"net"
	"net/netip"
)

// ServeBackends makes a namespace that has all addresses of pods. There each of the ports of a pod tells its
// address to everybody who connects.
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
		go tellAddress(lis)
	}
}

// tellAddress answers each connection with the address that it came to.
func tellAddress(lis net.Listener) {
	for {
		conn, err := lis.Accept()
		if err != nil {
			return
		}
		at := conn.LocalAddr().(*net.TCPAddr).AddrPort()
		_, _ = fmt.Fprintln(conn, netip.AddrPortFrom(at.Addr().Unmap(), at.Port()))
		_ = conn.Close()
	}
}
