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
		errs = append(errs, c.remove(family, list))
	}
	return errors.Join(errs...)
}

// ForgetUnanswered removes those of the flows that are TCP connections which the
// backend has not answered, so that the client's next SYN is a new flow.
func (c *Conntrack) ForgetUnanswered(flows []Flow) error {
	var errs []error
	for family, list := range byFamily(flows) {
		errs = append(errs, c.remove(family, unanswered{list}))
	}
	return errors.Join(errs...)
}

func (c *Conntrack) remove(family netlink.InetFamily, which netlink.CustomConntrackFilter) error {
	if _, err := c.handle.ConntrackDeleteFilters(netlink.ConntrackTable, family, which); err != nil {
		return fmt.Errorf("forget flows: %w", err)
	}
	return nil
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

// unanswered matches those of its flows in which only the client has spoken.
type unanswered struct{ flowSet }

// MatchConntrackFlow implements netlink.CustomConntrackFilter.
func (u unanswered) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	tcp, is := flow.ProtoInfo.(*netlink.ProtoInfoTCP)
	return is && tcp.State == stateSynSent && u.flowSet.MatchConntrackFlow(flow)
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

// Tracked is a flow as it stands.
type Tracked struct {
	Flow
	Client     netip.Addr
	Open       bool // false: TCP that is opening or closing
	Unanswered bool // TCP in which only the client has spoken
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
				t.Open, t.Unanswered = tcp.State == stateEstablished, tcp.State == stateSynSent
			}
			if client, ok := netip.AddrFromSlice(flow.Forward.SrcIP); ok {
				t.Client = client.Unmap()
			}
			fn(t)
		}
	}
	return nil
}
