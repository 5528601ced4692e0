package host

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Flow is an entry of connection tracking for traffic to a backend: the destination that the client
// used, and the backend.
type Flow struct {
	Frontend netip.AddrPort
	Protocol uint8
	Backend  netip.AddrPort
}

// Conntrack removes flows from connection tracking. It opens a socket in the namespace of the
// thread that calls NewConntrack.
type Conntrack struct{ handle *netlink.Handle }

// NewConntrack opens the socket.
func NewConntrack() (*Conntrack, error) {
	handle, err := netlink.NewHandle(unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("connection tracking: %w", err)
	}
	return &Conntrack{handle}, nil
}

// Close closes the socket.
func (c *Conntrack) Close() { c.handle.Close() }

// Forget removes flows, so that their next packet begins a new flow. Of unanswered it only removes
// TCP connections that the backend has not answered. It reads the table of each family only once
// for all flows.
func (c *Conntrack) Forget(flows, unanswered []Flow) error {
	byFamily := map[netlink.InetFamily]flowSet{}
	for _, f := range unanswered {
		add(byFamily, f, true)
	}
	for _, f := range flows {
		add(byFamily, f, false)
	}
	var errs []error
	for family, set := range byFamily {
		if _, err := c.handle.ConntrackDeleteFilters(netlink.ConntrackTable, family, set); err != nil {
			errs = append(errs, fmt.Errorf("forget flows: %w", err))
		}
	}
	return errors.Join(errs...)
}

// flowSet matches any of its flows. A flow with the value true matches only while the backend has
// not answered.
type flowSet map[Flow]bool

func add(byFamily map[netlink.InetFamily]flowSet, f Flow, unanswered bool) {
	family := netlink.InetFamily(unix.AF_INET)
	if f.Backend.Addr().Is6() {
		family = unix.AF_INET6
	}
	if byFamily[family] == nil {
		byFamily[family] = flowSet{}
	}
	byFamily[family][f] = unanswered
}

// MatchConntrackFlow implements netlink.CustomConntrackFilter.
func (s flowSet) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	f, ok := flowOf(flow)
	unanswered, found := s[f]
	return ok && found && (!unanswered || isUnanswered(flow))
}

// isUnanswered reports whether a flow is a TCP connection to which the backend has sent nothing
// yet.
func isUnanswered(flow *netlink.ConntrackFlow) bool {
	tcp, is := flow.ProtoInfo.(*netlink.ProtoInfoTCP)
	return is && tcp.State == stateSynSent
}

func flowOf(flow *netlink.ConntrackFlow) (Flow, bool) {
	to, ok := netip.AddrFromSlice(flow.Forward.DstIP)
	from, ok2 := netip.AddrFromSlice(flow.Reverse.SrcIP)
	return Flow{
		Frontend: netip.AddrPortFrom(to.Unmap(), flow.Forward.DstPort), Protocol: flow.Forward.Protocol,
		Backend: netip.AddrPortFrom(from.Unmap(), flow.Reverse.SrcPort),
	}, ok && ok2
}

// The states of TCP in the kernel's enum tcp_conntrack.
const (
	stateSynSent     = 1
	stateEstablished = 3
	stateTimeWait    = 7
	stateClosed      = 8
)

// Tracked is a flow with its state.
type Tracked struct {
	Flow
	Client     netip.Addr
	Open       bool // false: TCP that is opening or closing
	Unanswered bool // TCP to which the backend has sent nothing yet
}

// Each passes all flows of both families to fn, except TCP flows that have ended.
func (c *Conntrack) Each(fn func(Tracked)) error {
	for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
		list, err := c.handle.ConntrackTableList(netlink.ConntrackTable, family)
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
			return fmt.Errorf("read flows: %w", err)
		}
		for _, flow := range list {
			t := Tracked{Open: true}
			var ok bool
			if t.Flow, ok = flowOf(flow); !ok {
				continue
			}
			if tcp, is := flow.ProtoInfo.(*netlink.ProtoInfoTCP); is {
				if tcp.State == stateTimeWait || tcp.State == stateClosed {
					continue
				}
				t.Open, t.Unanswered = tcp.State == stateEstablished, isUnanswered(flow)
			}
			if client, ok := netip.AddrFromSlice(flow.Forward.SrcIP); ok {
				t.Client = client.Unmap()
			}
			fn(t)
		}
	}
	return nil
}
