package ipvs

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane/kernel"
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
	cmdSetConfig  = 12
	cmdGetConfig  = 13

	attrTypeMask = 0x3fff // masks the flags of netlink

	attrService    = 1
	attrDest       = 2
	attrTimeoutTCP = 4 // tcpfin and udp follow

	svcFamily    = 1
	svcProtocol  = 2
	svcAddr      = 3
	svcPort      = 4
	svcScheduler = 6
	svcFlags     = 7
	svcTimeout   = 8
	svcNetmask   = 9
	svcTraffic   = 12 // counters of 64 bits

	trafficConnections = 1
	trafficPacketsIn   = 2
	trafficPacketsOut  = 3
	trafficBytesIn     = 4
	trafficBytesOut    = 5

	destAddr     = 1
	destPort     = 2
	destForward  = 3
	destWeight   = 4
	destUpper    = 5
	destLower    = 6
	destActive   = 7
	destInactive = 8

	flagPersistent = 0x1
	flagFallback   = 0x8  // for sh and mh
	flagSourcePort = 0x10 // for sh and mh
	flagsOurs      = flagPersistent | flagFallback | flagSourcePort
)

// serviceID identifies a virtual server.
type serviceID struct {
	addr     netip.AddrPort
	protocol plan.Protocol
}

func (id serviceID) String() string {
	return plan.Frontend{Addr: id.addr, Protocol: id.protocol}.String()
}

// settings are the properties of a virtual server that can be changed in place.
type settings struct {
	scheduler string
	flags     uint32
	timeout   uint32 // affinity in seconds
}

// destination is a backend in the kernel.
type destination struct {
	addr             netip.AddrPort
	weight           uint32
	active, inactive uint32 // numbers of connections
}

// encoder appends netlink messages to a buffer.
type encoder struct{ b []byte }

func (e *encoder) u16(v uint16) { e.b = binary.NativeEndian.AppendUint16(e.b, v) }

func (e *encoder) u32(v uint32) { e.b = binary.NativeEndian.AppendUint32(e.b, v) }

// pad fills up to a multiple of four bytes, as netlink requires.
func (e *encoder) pad() {
	for len(e.b)&3 != 0 {
		e.b = append(e.b, 0)
	}
}

// open starts an attribute. close fills in its length.
func (e *encoder) open(kind uint16) (at int) {
	at = len(e.b)
	e.u16(0)
	e.u16(kind)
	return at
}

func (e *encoder) close(at int) {
	binary.NativeEndian.PutUint16(e.b[at:], uint16(len(e.b)-at))
	e.pad()
}

func (e *encoder) number16(kind, v uint16) {
	e.u16(6)
	e.u16(kind)
	e.u16(v)
	e.u16(0)
}

func (e *encoder) port(kind, v uint16) {
	e.u16(6)
	e.u16(kind)
	e.b = binary.BigEndian.AppendUint16(e.b, v)
	e.u16(0)
}

func (e *encoder) number32(kind uint16, v uint32) {
	e.u16(8)
	e.u16(kind)
	e.u32(v)
}

func (e *encoder) text(kind uint16, v string) {
	at := e.open(kind)
	e.b = append(append(e.b, v...), 0)
	e.close(at)
}

// addr appends an address in the 16 bytes that the kernel uses for both families.
func (e *encoder) addr(kind uint16, addr netip.Addr) {
	e.u16(20)
	e.u16(kind)
	var b [16]byte
	if addr.Is4() {
		v4 := addr.As4()
		copy(b[:], v4[:])
	} else {
		b = addr.As16()
	}
	e.b = append(e.b, b[:]...)
}

func (e *encoder) identify(id serviceID) {
	e.number16(svcFamily, family(id.addr.Addr()))
	e.number16(svcProtocol, uint16(id.protocol))
	e.addr(svcAddr, id.addr.Addr())
	e.port(svcPort, id.addr.Port())
}

func family(addr netip.Addr) uint16 {
	if addr.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// request is one message to the kernel. It is encoded when it is sent.
type request struct {
	cmd uint8
	id  serviceID
	// set applies to cmdNewService and cmdSetService.
	set settings
	// backend and weight apply to the commands for destinations.
	backend netip.AddrPort
	weight  uint32
	// body holds the attributes of other commands; may be nil.
	body []byte
}

// serviceRequest returns a request that adds or changes a virtual server.
func serviceRequest(cmd uint8, id serviceID, s settings) request {
	return request{cmd: cmd, id: id, set: s}
}

// deleteService returns a request that deletes a virtual server.
func deleteService(id serviceID) request { return request{cmd: cmdDelService, id: id} }

// destRequest returns a request that adds, changes or removes a backend.
func destRequest(cmd uint8, id serviceID, addr netip.AddrPort, weight uint32) request {
	return request{cmd: cmd, id: id, backend: addr, weight: weight}
}

// message appends a request with its headers.
func (e *encoder) message(r *request, family, flags uint16, seq uint32) {
	start := len(e.b)
	e.u32(0)
	e.u16(family)
	e.u16(flags)
	e.u32(seq)
	e.u32(0)
	e.b = append(e.b, r.cmd, 1, 0, 0)
	switch {
	case r.body != nil:
		e.b = append(e.b, r.body...)
	case r.cmd == cmdNewService, r.cmd == cmdSetService:
		e.service(r)
	case r.cmd == cmdNewDest, r.cmd == cmdSetDest, r.cmd == cmdDelDest:
		e.identity(r.id)
		e.destination(r)
	case r.id != serviceID{}:
		e.identity(r.id)
	}
	binary.NativeEndian.PutUint32(e.b[start:], uint32(len(e.b)-start))
	e.pad()
}

func (e *encoder) identity(id serviceID) {
	at := e.open(attrService | unix.NLA_F_NESTED)
	e.identify(id)
	e.close(at)
}

func (e *encoder) service(r *request) {
	at := e.open(attrService | unix.NLA_F_NESTED)
	e.identify(r.id)
	e.text(svcScheduler, r.set.scheduler)
	flags := e.open(svcFlags)
	e.u32(r.set.flags)
	e.u32(^uint32(0)) // the mask of the flags to set: all
	e.close(flags)
	e.number32(svcTimeout, r.set.timeout)
	if r.id.addr.Addr().Is4() { // affinity is by single address
		e.number32(svcNetmask, 0xffffffff)
	} else {
		e.number32(svcNetmask, 128)
	}
	e.close(at)
}

func (e *encoder) destination(r *request) {
	at := e.open(attrDest | unix.NLA_F_NESTED)
	e.addr(destAddr, r.backend.Addr())
	e.port(destPort, r.backend.Port())
	if r.cmd != cmdDelDest {
		e.number32(destForward, 0) // NAT
		e.number32(destWeight, r.weight)
		e.number32(destUpper, 0)
		e.number32(destLower, 0)
	}
	e.close(at)
}

// fields are the attributes of a message by kind. Attributes of newer kernels with higher numbers
// are dropped, because this package does not use them.
type fields [16][]byte

// parse splits a list of attributes.
func parse(b []byte) (out fields, err error) {
	for len(b) >= 4 {
		size := int(binary.NativeEndian.Uint16(b))
		kind := int(binary.NativeEndian.Uint16(b[2:]) & attrTypeMask)
		if size < 4 || size > len(b) {
			return out, fmt.Errorf("attribute %d of %d bytes in %d", kind, size, len(b))
		}
		if kind < len(out) {
			out[kind] = b[4:size]
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return out, nil
}

// number64 decodes an integer of 8 bytes. It returns 0 if the attribute is missing.
func number64(b []byte) uint64 {
	if len(b) != 8 {
		return 0
	}
	return binary.NativeEndian.Uint64(b)
}

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

// parseService decodes a virtual server. If the server is identified by a packet mark, ok is false,
// because it is never ours.
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

// parseTraffic decodes the counters of a virtual server.
func parseTraffic(body []byte) (id serviceID, t kernel.Traffic, ok bool, err error) {
	id, _, ok, err = parseService(body)
	if err != nil || !ok {
		return id, t, false, err
	}
	outer, err := parse(body)
	if err != nil {
		return id, t, false, err
	}
	service, err := parse(outer[attrService])
	if err != nil {
		return id, t, false, err
	}
	in, err := parse(service[svcTraffic])
	return id, kernel.Traffic{
		Connections: number64(in[trafficConnections]),
		PacketsIn:   number64(in[trafficPacketsIn]), PacketsOut: number64(in[trafficPacketsOut]),
		BytesIn: number64(in[trafficBytesIn]), BytesOut: number64(in[trafficBytesOut]),
	}, err == nil, err
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
