package ipvs

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/plan"
)

// The commands and attributes of the kernel's include/uapi/linux/ip_vs.h.
const (
	cmdNewService = 1
	cmdSetService = 2
	cmdDelService = 3
	cmdGetService = 4
	cmdNewDest    = 5
	cmdSetDest    = 6
	cmdDelDest    = 7
	cmdGetDest    = 8

	attrTypeMask = 0x3fff // without the flags of netlink

	attrService = 1
	attrDest    = 2

	svcFamily    = 1
	svcProtocol  = 2
	svcAddr      = 3
	svcPort      = 4
	svcScheduler = 6
	svcFlags     = 7
	svcTimeout   = 8
	svcNetmask   = 9

	destAddr     = 1
	destPort     = 2
	destForward  = 3
	destWeight   = 4
	destUpper    = 5
	destLower    = 6
	destActive   = 7
	destInactive = 8

	flagPersistent = 0x1
	flagFallback   = 0x8  // of sh and mh
	flagSourcePort = 0x10 // of sh and mh
	flagsOurs      = flagPersistent | flagFallback | flagSourcePort
)

// serviceID is what a virtual server is found by.
type serviceID struct {
	addr     netip.AddrPort
	protocol plan.Protocol
}

func (id serviceID) String() string {
	return plan.Frontend{Addr: id.addr, Protocol: id.protocol}.String()
}

// settings are what can be changed about a virtual server in place.
type settings struct {
	scheduler string
	flags     uint32
	timeout   uint32 // seconds of affinity
}

// destination is a backend as the kernel knows it.
type destination struct {
	addr             netip.AddrPort
	weight           uint32
	active, inactive uint32 // connections
}

// attributes builds a list of netlink attributes.
type attributes struct{ b []byte }

func (a *attributes) put(kind uint16, value []byte) {
	a.b = binary.NativeEndian.AppendUint16(a.b, uint16(4+len(value)))
	a.b = binary.NativeEndian.AppendUint16(a.b, kind)
	a.b = append(a.b, value...)
	a.b = append(a.b, make([]byte, -len(value)&3)...)
}

func (a *attributes) u16(kind, v uint16) { a.put(kind, binary.NativeEndian.AppendUint16(nil, v)) }

func (a *attributes) port(kind, v uint16) { a.put(kind, binary.BigEndian.AppendUint16(nil, v)) }

func (a *attributes) u32(kind uint16, v uint32) {
	a.put(kind, binary.NativeEndian.AppendUint32(nil, v))
}

// addr puts an address into the 16 bytes that the kernel has for both families.
func (a *attributes) addr(kind uint16, addr netip.Addr) {
	var b [16]byte
	copy(b[:], addr.AsSlice())
	a.put(kind, b[:])
}

func (a *attributes) nest(kind uint16, inner attributes) { a.put(kind|unix.NLA_F_NESTED, inner.b) }

func (a *attributes) identify(id serviceID) {
	a.u16(svcFamily, family(id.addr.Addr()))
	a.u16(svcProtocol, uint16(id.protocol))
	a.addr(svcAddr, id.addr.Addr())
	a.port(svcPort, id.addr.Port())
}

func family(addr netip.Addr) uint16 {
	if addr.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// request is one message to the kernel.
type request struct {
	cmd  uint8
	body []byte
}

// serviceRequest adds or changes a virtual server.
func serviceRequest(cmd uint8, id serviceID, s settings) request {
	var inner, outer attributes
	inner.identify(id)
	inner.put(svcScheduler, append([]byte(s.scheduler), 0))
	inner.put(svcFlags, binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint32(nil, s.flags), ^uint32(0)))
	inner.u32(svcTimeout, s.timeout)
	if id.addr.Addr().Is4() { // one client is one address
		inner.u32(svcNetmask, 0xffffffff)
	} else {
		inner.u32(svcNetmask, 128)
	}
	outer.nest(attrService, inner)
	return request{cmd, outer.b}
}

// deleteService removes a virtual server.
func deleteService(id serviceID) request { return request{cmdDelService, identity(id)} }

func identity(id serviceID) []byte {
	var inner, outer attributes
	inner.identify(id)
	outer.nest(attrService, inner)
	return outer.b
}

// destRequest adds, changes or removes a backend.
func destRequest(cmd uint8, id serviceID, addr netip.AddrPort, weight uint32) request {
	var inner attributes
	inner.addr(destAddr, addr.Addr())
	inner.port(destPort, addr.Port())
	if cmd != cmdDelDest {
		inner.u32(destForward, 0) // NAT
		inner.u32(destWeight, weight)
		inner.u32(destUpper, 0)
		inner.u32(destLower, 0)
	}
	outer := attributes{identity(id)}
	outer.nest(attrDest, inner)
	return request{cmd, outer.b}
}

// parse splits a list of attributes.
func parse(b []byte) (map[uint16][]byte, error) {
	out := map[uint16][]byte{}
	for len(b) >= 4 {
		size := int(binary.NativeEndian.Uint16(b))
		kind := binary.NativeEndian.Uint16(b[2:]) & attrTypeMask
		if size < 4 || size > len(b) {
			return nil, fmt.Errorf("attribute %d of %d bytes in %d", kind, size, len(b))
		}
		out[kind] = b[4:size]
		b = b[min((size+3)&^3, len(b)):]
	}
	return out, nil
}

// number reads an integer of 2 or 4 bytes; 0: it is missing.
func number(b []byte) uint32 {
	switch len(b) {
	case 2:
		return uint32(binary.NativeEndian.Uint16(b))
	case 4:
		return binary.NativeEndian.Uint32(b)
	}
	return 0
}

func addrPort(addr, port []byte, v4 bool) (netip.AddrPort, error) {
	if v4 && len(addr) > 4 {
		addr = addr[:4]
	}
	a, ok := netip.AddrFromSlice(addr)
	if !ok || len(port) != 2 {
		return netip.AddrPort{}, fmt.Errorf("address of %d, port of %d bytes", len(addr), len(port))
	}
	return netip.AddrPortFrom(a, binary.BigEndian.Uint16(port)), nil
}

// parseService reads a virtual server. Those that are found by a packet mark
// are nobody's business here: ok is false.
func parseService(body []byte) (id serviceID, s settings, ok bool, err error) {
	outer, err := parse(body)
	if err != nil {
		return id, s, false, err
	}
	in, err := parse(outer[attrService])
	if err != nil || in[svcAddr] == nil {
		return id, s, false, err
	}
	id.addr, err = addrPort(in[svcAddr], in[svcPort], number(in[svcFamily]) == unix.AF_INET)
	if err != nil {
		return id, s, false, err
	}
	id.protocol = plan.Protocol(number(in[svcProtocol]))
	name := in[svcScheduler]
	for len(name) > 0 && name[len(name)-1] == 0 {
		name = name[:len(name)-1]
	}
	s.scheduler = string(name)
	if flags := in[svcFlags]; len(flags) >= 4 { // the kernel adds flags of its own
		s.flags = binary.NativeEndian.Uint32(flags) & flagsOurs
	}
	if s.flags&flagPersistent != 0 {
		s.timeout = number(in[svcTimeout])
	}
	return id, s, true, nil
}

func parseDestination(body []byte, v4 bool) (destination, error) {
	outer, err := parse(body)
	if err != nil {
		return destination{}, err
	}
	in, err := parse(outer[attrDest])
	if err != nil {
		return destination{}, err
	}
	addr, err := addrPort(in[destAddr], in[destPort], v4)
	return destination{
		addr: addr, weight: number(in[destWeight]),
		active: number(in[destActive]), inactive: number(in[destInactive]),
	}, err
}
