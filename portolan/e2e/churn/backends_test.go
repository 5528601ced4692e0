package churn

import (
	"fmt"
	"net"
	"net/netip"

	"portolan.dev/portolan/e2e/churn/workload"
	"portolan.dev/portolan/e2e/labtest"
)

// serveBackends makes a namespace that has all addresses of pods. There each port of a pod tells its address to
// who connects.
func serveBackends(i *labtest.Installation) {
	i.Helper()
	pods, _ := i.Attach("pods", labtest.Pods[:]...)
	for _, p := range labtest.Pods {
		pods.Local(i, p)
	}
	for _, port := range workload.Ports {
		var lis net.Listener
		err := pods.Do(func() (err error) {
			lis, err = net.Listen("tcp", netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(port)).String())
			return err
		})
		if err != nil {
			i.Fatal(err)
		}
		i.Cleanup(func() { _ = lis.Close() })
		go answer(lis)
	}
}

func answer(lis net.Listener) {
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
