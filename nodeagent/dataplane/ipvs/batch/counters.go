package batch

import (
	"encoding/binary"
	"net"

	"github.com/mdlayher/netlink"
	"github.com/moby/ipvs"
	"golang.org/x/sys/unix"
)

// The attributes of counters in the kernel's include/uapi/linux/ip_vs.h.
const (
	counterConnections = 1
	counterPacketsIn   = 2
	counterPacketsOut  = 3
	counterBytesIn     = 4
	counterBytesOut    = 5
)

// Counters are the kernel's counters of a service, of 64 bits. The library reads the kernel's older counters of
// 32 bits, in which packets overflow within the hour.
type Counters struct {
	Connections           uint64
	PacketsIn, PacketsOut uint64
	BytesIn, BytesOut     uint64
}

// Counted is a service with its counters. Of the service, only the identity is set.
type Counted struct {
	Service  ipvs.Service
	Counters Counters
}

// Counters reads the counters of all services in the namespace.
func (c *Conn) Counters() ([]Counted, error) {
	var out []Counted
	err := c.dump(getService, nil, func(answer []byte) error {
		counted, err := decodeCounted(answer)
		out = append(out, counted)
		return err
	})
	return out, err
}

func decodeCounted(b []byte) (Counted, error) {
	var out Counted
	d, err := netlink.NewAttributeDecoder(b)
	if err != nil {
		return out, err
	}
	for d.Next() {
		if d.Type() == attrService {
			d.Nested(out.decode)
		}
	}
	return out, d.Err()
}

// decode decodes the attributes of a service.
func (c *Counted) decode(d *netlink.AttributeDecoder) error {
	s := &c.Service
	for d.Next() {
		switch d.Type() {
		case svcFamily:
			s.AddressFamily = d.Uint16()
		case svcProtocol:
			s.Protocol = d.Uint16()
		case svcAddr:
			s.Address = d.Bytes()
		case svcPort:
			d.ByteOrder = binary.BigEndian
			s.Port = d.Uint16()
			d.ByteOrder = binary.NativeEndian
		case svcFWMark:
			s.FWMark = d.Uint32()
		case svcCounters:
			d.Nested(c.Counters.decode)
		}
	}
	if s.AddressFamily == unix.AF_INET && len(s.Address) > net.IPv4len { // the kernel always has 16 bytes
		s.Address = s.Address[:net.IPv4len]
	}
	return d.Err()
}

func (c *Counters) decode(d *netlink.AttributeDecoder) error {
	for d.Next() {
		switch d.Type() {
		case counterConnections:
			c.Connections = d.Uint64()
		case counterPacketsIn:
			c.PacketsIn = d.Uint64()
		case counterPacketsOut:
			c.PacketsOut = d.Uint64()
		case counterBytesIn:
			c.BytesIn = d.Uint64()
		case counterBytesOut:
			c.BytesOut = d.Uint64()
		}
	}
	return d.Err()
}
