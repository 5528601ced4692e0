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
	ReasonSourceRange = "source_range" // the client is in none of the ranges that may come
	ReasonNoBackend   = "no_backend"   // there is no backend here, and another node may have one
)

// dropping are the sets whose members are frontends that packets were dropped
// for, with the reason.
var dropping = map[Set]string{
	DeniedSet: ReasonSourceRange, LimitNode: ReasonSourceRange,
	DropInside: ReasonNoBackend, DropOutside: ReasonNoBackend,
}

// Drop is what was dropped at a frontend for a reason.
type Drop struct {
	Frontend plan.Frontend
	Set      Set // that counted
	Reason   string
	Service  plan.ServiceName
	PortName string
	Packets  uint64 // since the packet filter was built
}

// Drops reads from the kernel what the packet filter has dropped. Frontends that
// lost nothing are left out, and all of them where the kernel cannot count.
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

// ownerOf returns a virtual server of a frontend; nil: there is none.
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

// frontendOf is the reverse of frontendKey.
func frontendOf(key []byte, v6 bool) (plan.Frontend, bool) {
	size := int(Packet{v6}.AddrLen())
	if len(key) < size+6 {
		return plan.Frontend{}, false
	}
	addr, ok := netip.AddrFromSlice(key[:size])
	port := binary.BigEndian.Uint16(key[size+4:])
	return plan.Frontend{Addr: netip.AddrPortFrom(addr, port), Protocol: plan.Protocol(key[size])}, ok
}
