package neighbor

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/mdlayher/ndp"
	"github.com/mdlayher/packet"
	"golang.org/x/net/bpf"
	"golang.org/x/net/ipv6"

	"portolan.dev/nodeagent/machine"
)

const (
	ipv6Frames   = 0x86dd // the type of Ethernet frames with IPv6
	ipv6Header   = 40     // bytes
	nextHeaderAt = 6
	hopLimitAt   = 7
	sourceAt     = 8
	icmpv6       = 58
	solicitation = 135
	maxRequest   = 1500 // bytes
)

// solicitations selects neighbour solicitations among packets of IPv6. Requests with another hop
// limit come from another network and are not valid.
var solicitations = []bpf.Instruction{
	bpf.LoadAbsolute{Off: nextHeaderAt, Size: 1},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: icmpv6, SkipFalse: 5},
	bpf.LoadAbsolute{Off: hopLimitAt, Size: 1},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: ndp.HopLimit, SkipFalse: 3},
	bpf.LoadAbsolute{Off: ipv6Header, Size: 1},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: solicitation, SkipFalse: 1},
	bpf.RetConstant{Val: wholePacket},
	bpf.RetConstant{Val: 0},
}

// allNodes is the multicast group of all neighbours.
var allNodes = netip.MustParseAddr("ff02::1")

type ndpConn struct {
	requests *packet.Conn
	answers  *ndp.Conn
	hardware net.HardwareAddr

	mu     sync.Mutex
	groups map[netip.Addr]bool // the multicast groups that the socket of answers has joined
}

// OpenNDP opens an interface for neighbour discovery. The interface must have a link-local address
// that is in use. (One that the kernel still checks for duplicates is not.)
func OpenNDP(i machine.Interface) (machine.Neighbors, error) {
	ifi, requests, err := listen(i, packet.Datagram, ipv6Frames, solicitations)
	if err != nil {
		return nil, fmt.Errorf("neighbour discovery on %s: %w", i.Name, err)
	}
	answers, _, err := ndp.Listen(ifi, ndp.LinkLocal)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("neighbour discovery on %s: %w", i.Name, err), requests.Close())
	}
	c := &ndpConn{requests: requests, answers: answers, hardware: ifi.HardwareAddr, groups: map[netip.Addr]bool{}}
	// Nothing is read from this socket.
	var none ipv6.ICMPFilter
	none.SetAll(true)
	if err := answers.SetICMPFilter(&none); err != nil {
		return nil, errors.Join(fmt.Errorf("neighbour discovery on %s: %w", i.Name, err), c.Close())
	}
	return c, nil
}

// Receive implements machine.Neighbors.
func (c *ndpConn) Receive() (machine.Request, error) {
	buffer := make([]byte, maxRequest)
	for {
		n, from, err := c.requests.ReadFrom(buffer)
		if err != nil {
			return machine.Request{}, err
		}
		request, ok := parseSolicitation(buffer[:n])
		if link, known := from.(*packet.Addr); ok && known {
			request.Hardware = link.HardwareAddr
			return request, nil
		}
	}
}

// parseSolicitation parses a packet of IPv6 with a neighbour solicitation.
func parseSolicitation(p []byte) (machine.Request, bool) {
	if len(p) < ipv6Header {
		return machine.Request{}, false
	}
	m, err := ndp.ParseMessage(p[ipv6Header:])
	if err != nil {
		return machine.Request{}, false
	}
	s, ok := m.(*ndp.NeighborSolicitation)
	if !ok {
		return machine.Request{}, false
	}
	return machine.Request{Address: s.TargetAddress, Sender: netip.AddrFrom16([16]byte(p[sourceAt:]))}, true
}

// Answer implements machine.Neighbors.
func (c *ndpConn) Answer(r machine.Request) error {
	if r.Sender.IsUnspecified() { // it checks whether the address is in use
		return c.advertise(r.Address, allNodes)
	}
	return c.advertise(r.Address, r.Sender)
}

// Announce implements machine.Neighbors.
func (c *ndpConn) Announce(addr netip.Addr) error { return c.advertise(addr, allNodes) }

func (c *ndpConn) advertise(addr, to netip.Addr) error {
	return c.answers.WriteTo(&ndp.NeighborAdvertisement{
		Solicited: to != allNodes, Override: true, TargetAddress: addr,
		Options: []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Target, Addr: c.hardware}},
	}, nil, to)
}

// Watch implements machine.Neighbors. It joins the multicast groups to which neighbours send their
// requests.
func (c *ndpConn) Watch(addrs []netip.Addr) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	wanted := map[netip.Addr]bool{}
	var first error
	for _, addr := range addrs {
		group, err := ndp.SolicitedNodeMulticast(addr)
		if err == nil && !wanted[group] && !c.groups[group] {
			err = c.answers.JoinGroup(group)
		}
		if err != nil {
			first = cmp.Or(first, fmt.Errorf("requests for %s: %w", addr, err))
			continue
		}
		wanted[group] = true
	}
	for group := range c.groups {
		if !wanted[group] {
			first = cmp.Or(first, c.answers.LeaveGroup(group))
		}
	}
	c.groups = wanted
	return first
}

// Close implements machine.Neighbors.
func (c *ndpConn) Close() error { return errors.Join(c.requests.Close(), c.answers.Close()) }
