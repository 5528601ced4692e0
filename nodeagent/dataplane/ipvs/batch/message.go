package batch

import (
	"encoding/binary"
	"net"

	"github.com/moby/ipvs"
	"golang.org/x/sys/unix"
)

// Command is the kind of a change, with the numbers of the kernel's include/uapi/linux/ip_vs.h.
type Command uint8

// The commands.
const (
	NewService Command = iota + 1
	UpdateService
	DelService
	getService
	NewDestination
	UpdateDestination
	DelDestination
	getDestination
)

// Change is one change of the kernel's tables.
type Change struct {
	Command     Command
	Service     ipvs.Service
	Destination ipvs.Destination // used by the commands for destinations
}

// The attributes of the kernel's include/uapi/linux/ip_vs.h.
const (
	attrService = 1
	attrDest    = 2

	svcFamily    = 1
	svcProtocol  = 2
	svcAddr      = 3
	svcPort      = 4
	svcFWMark    = 5
	svcScheduler = 6
	svcFlags     = 7
	svcTimeout   = 8
	svcNetmask   = 9
	svcPEName    = 11
	svcCounters  = 12 // of 64 bits

	destAddr    = 1
	destPort    = 2
	destForward = 3
	destWeight  = 4
	destUpper   = 5
	destLower   = 6
)

// encoder appends netlink messages to a buffer.
type encoder struct{ b []byte }

// change appends the message of a change.
func (e *encoder) change(c *Change, family, flags uint16, seq uint32) {
	start := e.begin(uint8(c.Command), family, flags, seq)
	service := e.open(attrService | unix.NLA_F_NESTED)
	e.identity(&c.Service)
	if c.Command == NewService || c.Command == UpdateService {
		e.settings(&c.Service)
	}
	e.close(service)
	if c.Command >= NewDestination {
		e.destination(&c.Destination)
	}
	e.end(start)
}

// begin appends the headers of a message. end fills in its length.
func (e *encoder) begin(command uint8, family, flags uint16, seq uint32) (start int) {
	start = len(e.b)
	e.u32(0)
	e.u16(family)
	e.u16(flags)
	e.u32(seq)
	e.u32(0)
	e.b = append(e.b, command, 1, 0, 0)
	return start
}

func (e *encoder) end(start int) {
	binary.NativeEndian.PutUint32(e.b[start:], uint32(len(e.b)-start))
}

// identity appends the attributes that identify a service.
func (e *encoder) identity(s *ipvs.Service) {
	e.number16(svcFamily, s.AddressFamily)
	if s.FWMark != 0 {
		e.number32(svcFWMark, s.FWMark)
		return
	}
	e.number16(svcProtocol, s.Protocol)
	e.addr(svcAddr, s.Address)
	e.port(svcPort, s.Port)
}

// settings appends the attributes of a service that can be changed.
func (e *encoder) settings(s *ipvs.Service) {
	e.text(svcScheduler, s.SchedName)
	if s.PEName != "" {
		e.text(svcPEName, s.PEName)
	}
	flags := e.open(svcFlags)
	e.u32(s.Flags)
	e.u32(^uint32(0)) // the mask of the flags to set: all
	e.close(flags)
	e.number32(svcTimeout, s.Timeout)
	e.number32(svcNetmask, s.Netmask)
}

func (e *encoder) destination(d *ipvs.Destination) {
	at := e.open(attrDest | unix.NLA_F_NESTED)
	e.addr(destAddr, d.Address)
	e.port(destPort, d.Port)
	e.number32(destForward, d.ConnectionFlags&ipvs.ConnectionFlagFwdMask)
	e.number32(destWeight, uint32(d.Weight))
	e.number32(destUpper, d.UpperThreshold)
	e.number32(destLower, d.LowerThreshold)
	e.close(at)
}

func (e *encoder) u16(v uint16) { e.b = binary.NativeEndian.AppendUint16(e.b, v) }

func (e *encoder) u32(v uint32) { e.b = binary.NativeEndian.AppendUint32(e.b, v) }

// open starts an attribute. close fills in its length, and pads the message to a multiple of four
// bytes.
func (e *encoder) open(kind uint16) (at int) {
	at = len(e.b)
	e.u16(0)
	e.u16(kind)
	return at
}

func (e *encoder) close(at int) {
	binary.NativeEndian.PutUint16(e.b[at:], uint16(len(e.b)-at))
	for len(e.b)&3 != 0 {
		e.b = append(e.b, 0)
	}
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

// addr appends an address of 4 or 16 bytes.
func (e *encoder) addr(kind uint16, ip net.IP) {
	if v4 := ip.To4(); v4 != nil {
		ip = v4
	}
	at := e.open(kind)
	e.b = append(e.b, ip...)
	e.close(at)
}
