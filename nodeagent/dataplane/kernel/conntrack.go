package kernel

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Flow is what connection tracking knows of traffic to a backend: where the
// client sent it, and where it went.
type Flow struct {
	Frontend netip.AddrPort
	Protocol uint8
	Backend  netip.AddrPort
}

// Conntrack forgets flows. It opens a socket in the namespace of the thread that
// calls NewConntrack.
type Conntrack struct{ handle *netlink.Handle }

// NewConntrack opens the socket.
func NewConntrack() (*Conntrack, error) {
	handle, err := netlink.NewHandle(unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("connection tracking: %w", err)
	}
	return &Conntrack{handle}, nil
}

// Close frees the socket.
func (c *Conntrack) Close() { c.handle.Close() }

// Forget removes flows, so that their next packet is a new flow. All are looked
// for in one reading of the table.
func (c *Conntrack) Forget(flows []Flow) error {
	var errs []error
	for family, list := range byFamily(flows) {
		if _, err := c.handle.ConntrackDeleteFilters(netlink.ConntrackTable, family, list); err != nil {
			errs = append(errs, fmt.Errorf("forget flows: %w", err))
		}
	}
	return errors.Join(errs...)
}

// flowSet matches any of its flows.
type flowSet map[Flow]struct{}

func byFamily(flows []Flow) map[netlink.InetFamily]flowSet {
	out := map[netlink.InetFamily]flowSet{}
	for _, f := range flows {
		family := netlink.InetFamily(unix.AF_INET)
		if f.Backend.Addr().Is6() {
			family = unix.AF_INET6
		}
		if out[family] == nil {
			out[family] = flowSet{}
		}
		out[family][f] = struct{}{}
	}
	return out
}

// MatchConntrackFlow implements netlink.CustomConntrackFilter.
func (s flowSet) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	f, ok := flowOf(flow)
	_, found := s[f]
	return ok && found
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
	stateEstablished = 3
	stateTimeWait    = 7
	stateClosed      = 8
)

// Tracked is a flow as it stands.
type Tracked struct {
	Flow
	Client netip.Addr
	Open   bool // false: TCP that is opening or closing
}

// Each hands all flows of both families to fn, except for those of TCP that have
// ended.
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
				t.Open = tcp.State == stateEstablished
			}
			if client, ok := netip.AddrFromSlice(flow.Forward.SrcIP); ok {
				t.Client = client.Unmap()
			}
			fn(t)
		}
	}
	return nil
}
