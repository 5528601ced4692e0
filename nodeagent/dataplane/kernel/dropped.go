package kernel

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"

	"github.com/mdlayher/netlink"

	"portolan.dev/nodeagent/plan"
)

// The reasons of dropped packets.
const (
	ReasonSourceRange = "source_range" // the client is in none of the allowed ranges
	ReasonNoBackend   = "no_backend"   // there is no backend on this node, but another node may have one
)

// dropping maps the sets with counters of dropped packets to the reason. Their members are
// frontends.
var dropping = map[Set]string{
	DeniedSet: ReasonSourceRange, LimitNode: ReasonSourceRange,
	DropInside: ReasonNoBackend, DropOutside: ReasonNoBackend,
}

// Drop is the number of packets that were dropped at a frontend for a reason.
type Drop struct {
	Frontend plan.Frontend
	Set      Set // the set that counted them
	Reason   string
	Service  plan.ServiceName
	PortName string
	Packets  uint64 // since the packet filter was built
}

// Drops reads the numbers of dropped packets from the kernel. Frontends without dropped packets are
// left out. The result is empty if the kernel cannot count.
func (p *Plane) Drops() ([]Drop, error) {
	var found []Drop
	err := readLists(p.opts.Namespace, func(conn *netlink.Conn) error {
		found = nil
		for set := range dropping {
			for _, v6 := range []bool{false, true} {
				err := readElements(conn, familyOf(v6), filterTable, string(set), func(m Member) {
					if at, ok := frontendOf(m.Key, v6); ok && m.Packets > 0 {
						found = append(found, Drop{Frontend: at, Set: set, Reason: dropping[set], Packets: m.Packets})
					}
				})
				if err != nil && !errors.Is(err, os.ErrNotExist) {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	known := found[:0]
	for _, d := range found {
		if v := p.ownerOf(d.Frontend); v != nil {
			d.Service, d.PortName = v.Service, v.PortName
			known = append(known, d)
		}
	}
	return known, nil
}

// ownerOf returns a virtual server of a frontend, or nil.
func (p *Plane) ownerOf(at plan.Frontend) *plan.VirtualServer {
	f := p.fronts[at]
	if f == nil {
		return nil
	}
	for _, v := range f.servers {
		if v != nil {
			return v
		}
	}
	return nil
}

// frontendOf is the inverse of frontendKey.
func frontendOf(key []byte, v6 bool) (plan.Frontend, bool) {
	size := int(Packet{v6}.AddrLen())
	if len(key) < size+6 {
		return plan.Frontend{}, false
	}
	addr, ok := netip.AddrFromSlice(key[:size])
	port := binary.BigEndian.Uint16(key[size+4:])
	return plan.Frontend{Addr: netip.AddrPortFrom(addr, port), Protocol: plan.Protocol(key[size])}, ok
}
