package batch

import (
	"encoding/binary"
	"errors"
	"net"
	"slices"

	"github.com/moby/ipvs"
	"golang.org/x/sys/unix"
)

// The attributes of a destination that only answers have.
const (
	destActive   = 7
	destInactive = 8
	destFamily   = 11
)

var errAttribute = errors.New("a netlink attribute of the wrong length")

// Destinations reads the destinations of services, in the order of the services. A service that does not exist
// has none. The counters of packets and bytes are left out.
func (c *Conn) Destinations(services []ipvs.Service) ([][]ipvs.Destination, error) {
	out := make([][]ipvs.Destination, len(services))
	var list []ipvs.Destination // reused, because a list grows by one at a time
	for i := range services {
		list = list[:0]
		err := c.dump(getDestination, &services[i], func(answer []byte) error {
			d := ipvs.Destination{AddressFamily: services[i].AddressFamily}
			err := decodeDestination(answer, &d)
			list = append(list, d)
			return err
		})
		if err != nil {
			return nil, err
		}
		out[i] = slices.Clone(list)
	}
	return out, nil
}

// decodeDestination decodes an answer about a destination. The answer has two sets of counters, and a decoder
// that copies them takes most of the time of a read, so they are skipped.
func decodeDestination(answer []byte, d *ipvs.Destination) error {
	err := eachAttribute(answer, func(kind uint16, value []byte) error {
		if kind != attrDest {
			return nil
		}
		return eachAttribute(value, func(kind uint16, value []byte) error { return setAttribute(d, kind, value) })
	})
	if d.AddressFamily == unix.AF_INET && len(d.Address) > net.IPv4len { // the kernel always has 16 bytes
		d.Address = d.Address[:net.IPv4len]
	}
	d.Address = slices.Clone(d.Address) // the answer's memory is used again
	return err
}

// setAttribute sets the property of a destination that an attribute has.
func setAttribute(d *ipvs.Destination, kind uint16, value []byte) error {
	var err error
	switch kind {
	case destAddr:
		d.Address = value
	case destPort:
		d.Port, err = number16(binary.BigEndian, value)
	case destFamily:
		d.AddressFamily, err = number16(binary.NativeEndian, value)
	case destForward:
		d.ConnectionFlags, err = number32(value)
	case destWeight:
		var weight uint32
		weight, err = number32(value)
		d.Weight = int(weight)
	case destUpper:
		d.UpperThreshold, err = number32(value)
	case destLower:
		d.LowerThreshold, err = number32(value)
	case destActive:
		var active uint32
		active, err = number32(value)
		d.ActiveConnections = int(active)
	case destInactive:
		var inactive uint32
		inactive, err = number32(value)
		d.InactiveConnections = int(inactive)
	}
	return err
}

func number16(order binary.ByteOrder, value []byte) (uint16, error) {
	if len(value) != 2 {
		return 0, errAttribute
	}
	return order.Uint16(value), nil
}

func number32(value []byte) (uint32, error) {
	if len(value) != 4 {
		return 0, errAttribute
	}
	return binary.NativeEndian.Uint32(value), nil
}

// eachAttribute passes attributes to fn, without copies of their values.
func eachAttribute(b []byte, fn func(kind uint16, value []byte) error) error {
	for len(b) > 0 {
		if len(b) < unix.SizeofNlAttr {
			return errAttribute
		}
		length := int(binary.NativeEndian.Uint16(b))
		if length < unix.SizeofNlAttr || length > len(b) {
			return errAttribute
		}
		kind := binary.NativeEndian.Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
		if err := fn(kind, b[unix.SizeofNlAttr:length]); err != nil {
			return err
		}
		b = b[min(len(b), (length+unix.NLA_ALIGNTO-1)&^(unix.NLA_ALIGNTO-1)):]
	}
	return nil
}
