package neighbor

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/mdlayher/arp"
	"github.com/mdlayher/ethernet"
	"github.com/mdlayher/packet"
	"golang.org/x/net/bpf"

	"portolan.dev/nodeagent/machine"
)

// arpFrames is the type of Ethernet frames with ARP.
const arpFrames = 0x0806

// arpRequests selects requests among frames with ARP, by the operation in the packet.
var arpRequests = []bpf.Instruction{
	bpf.LoadAbsolute{Off: 14 + 6, Size: 2},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(arp.OperationRequest), SkipFalse: 1},
	bpf.RetConstant{Val: wholePacket},
	bpf.RetConstant{Val: 0},
}

// wholePacket is a number of bytes that no packet of the package reaches.
const wholePacket = 1 << 16

type arpConn struct {
	client   *arp.Client
	hardware net.HardwareAddr
}

// OpenARP opens an interface for ARP. The interface must have an address of IPv4.
func OpenARP(i machine.Interface) (machine.Neighbors, error) {
	ifi, conn, err := listen(i, packet.Raw, arpFrames, arpRequests)
	if err != nil {
		return nil, fmt.Errorf("arp on %s: %w", i.Name, err)
	}
	client, err := arp.New(ifi, conn)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("arp on %s: %w", i.Name, err), conn.Close())
	}
	return &arpConn{client, ifi.HardwareAddr}, nil
}

// listen opens a packet socket with a filter on an interface.
func listen(i machine.Interface, kind packet.Type, protocol int, filter []bpf.Instruction) (*net.Interface, *packet.Conn, error) {
	ifi, err := net.InterfaceByIndex(i.Index)
	if err != nil {
		return nil, nil, err
	}
	raw, err := bpf.Assemble(filter)
	if err != nil {
		return nil, nil, err
	}
	conn, err := packet.Listen(ifi, kind, protocol, &packet.Config{Filter: raw})
	return ifi, conn, err
}

// Receive implements machine.Neighbors.
func (c *arpConn) Receive() (machine.Request, error) {
	for {
		p, frame, err := c.client.Read()
		if err != nil {
			return machine.Request{}, err
		}
		// Frames for other machines arrive if the interface is promiscuous.
		if !bytes.Equal(frame.Destination, ethernet.Broadcast) && !bytes.Equal(frame.Destination, c.hardware) {
			continue
		}
		return machine.Request{Address: p.TargetIP, Sender: p.SenderIP, Hardware: p.SenderHardwareAddr}, nil
	}
}

// Answer implements machine.Neighbors.
func (c *arpConn) Answer(r machine.Request) error {
	p, err := arp.NewPacket(arp.OperationReply, c.hardware, r.Address, r.Hardware, r.Sender)
	if err != nil {
		return err
	}
	return c.client.WriteTo(p, r.Hardware)
}

// Announce implements machine.Neighbors. It sends both forms of gratuitous ARP, because some
// machines learn from one only.
func (c *arpConn) Announce(addr netip.Addr) error {
	for _, operation := range []arp.Operation{arp.OperationRequest, arp.OperationReply} {
		p, err := arp.NewPacket(operation, c.hardware, addr, ethernet.Broadcast, addr)
		if err != nil {
			return err
		}
		if err := c.client.WriteTo(p, ethernet.Broadcast); err != nil {
			return err
		}
	}
	return nil
}

// Watch implements machine.Neighbors. Requests of ARP are broadcasts, which every interface
// receives.
func (c *arpConn) Watch([]netip.Addr) error { return nil }

// Close implements machine.Neighbors.
func (c *arpConn) Close() error { return c.client.Close() }
