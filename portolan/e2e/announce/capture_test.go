package announce

import (
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/kerneltest/topology"
)

// claim is a packet by which a node says that it has an address.
type claim struct {
	at      time.Time // by the kernel
	node    string
	address netip.Addr
	answer  bool // to a request; false: an announcement
}

// capture records the claims on a bridge, in their order.
type capture struct {
	mu     sync.Mutex
	claims []claim
}

// all returns the claims so far.
func (c *capture) all() []claim {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.claims[:len(c.claims):len(c.claims)]
}

// start captures the packets that come from the devices of a bridge with the given names, until the
// test ends.
func start(t *testing.T, in *topology.Namespace, nodes []string) *capture {
	t.Helper()
	ports := map[int]string{}
	var fd int
	err := in.Do(func() (err error) {
		for _, node := range nodes {
			device, err := net.InterfaceByName(node)
			if err != nil {
				return err
			}
			ports[device.Index] = node
		}
		all := unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8 // in network byte order
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, all); err != nil {
			return err
		}
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20); err != nil {
			return err
		}
		timeout := unix.Timeval{Usec: 100_000}
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
			return err
		}
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	})
	if err != nil {
		t.Fatal(err)
	}
	c := &capture{}
	stop := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		defer unix.Close(fd)
		for {
			select {
			case <-stop:
				return
			default:
				c.receive(fd, ports)
			}
		}
	})
	t.Cleanup(func() { close(stop); running.Wait() })
	return c
}

// receive records one packet if it is a claim of a node.
func (c *capture) receive(fd int, ports map[int]string) {
	buffer, control := make([]byte, 2048), make([]byte, 128)
	n, controls, _, from, err := unix.Recvmsg(fd, buffer, control, 0)
	link, ok := from.(*unix.SockaddrLinklayer)
	if err != nil || !ok || link.Pkttype == unix.PACKET_OUTGOING || ports[link.Ifindex] == "" {
		return
	}
	one, ok := parse(buffer[:n], link.Protocol<<8|link.Protocol>>8)
	if !ok {
		return
	}
	one.node, one.at = ports[link.Ifindex], stamp(control[:controls])
	c.mu.Lock()
	c.claims = append(c.claims, one)
	c.mu.Unlock()
}

// stamp returns the time in the control messages of a packet.
func stamp(control []byte) time.Time {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil || len(messages) == 0 || len(messages[0].Data) < 16 {
		return time.Now()
	}
	return time.Unix(int64(binary.NativeEndian.Uint64(messages[0].Data)), int64(binary.NativeEndian.Uint64(messages[0].Data[8:])))
}

// parse returns the claim in a packet: an answer of ARP, a request for the sender's own address
// (gratuitous ARP), or a neighbour advertisement.
func parse(p []byte, protocol uint16) (claim, bool) {
	const reply, icmpv6, advertisement, solicited = 2, 58, 136, 0x40
	switch {
	case protocol == unix.ETH_P_ARP && len(p) >= 28:
		sender, target := netip.AddrFrom4([4]byte(p[14:])), netip.AddrFrom4([4]byte(p[24:]))
		isReply := binary.BigEndian.Uint16(p[6:]) == reply
		return claim{address: sender, answer: isReply && sender != target}, isReply || sender == target
	case protocol == unix.ETH_P_IPV6 && len(p) >= 64 && p[6] == icmpv6 && p[40] == advertisement:
		return claim{address: netip.AddrFrom16([16]byte(p[48:])), answer: p[44]&solicited != 0}, true
	}
	return claim{}, false
}
