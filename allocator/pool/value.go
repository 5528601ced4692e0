package pool

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Value is an address or a port. It is comparable, and sorts by Key. The zero value is no value.
type Value struct {
	addr     netip.Addr
	port     uint16
	protocol Protocol
}

// AddrValue returns an address as a value.
func AddrValue(a netip.Addr) Value { return Value{addr: a.Unmap()} }

// PortValue returns a port as a value.
func PortValue(p uint16) Value { return Value{port: p} }

// PortValueFor returns a port of one protocol as a value.
func PortValueFor(p uint16, protocol Protocol) Value { return Value{port: p, protocol: protocol} }

// ParseAddr parses an address. A zone is an error.
func ParseAddr(text string) (Value, error) {
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		return Value{}, fmt.Errorf("%q is no IP address", text)
	}
	return AddrValue(a), nil
}

// ParsePort parses a port.
func ParsePort(text string) (Value, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return Value{}, fmt.Errorf("%q is no port number, 1-65535", text)
	}
	return PortValue(uint16(n)), nil
}

// ParseValue parses the text that String returns: an address, a port, or a port with its protocol.
func ParseValue(text string) (Value, error) {
	number, name, split := strings.Cut(text, "/")
	v, err := ParsePort(number)
	switch {
	case split && err == nil:
		i := slices.IndexFunc(Protocols(), func(p Protocol) bool { return p.String() == name })
		if i < 0 {
			return Value{}, fmt.Errorf("%q is no protocol of ports", name)
		}
		return PortValueFor(v.port, Protocols()[i]), nil
	case split:
		return Value{}, err
	case err == nil:
		return v, nil
	default:
		return ParseAddr(text)
	}
}

// ValueOfKey returns the value of a key that Key returned.
func ValueOfKey(key []byte) (Value, error) {
	switch len(key) {
	case 2:
		return PortValue(binary.BigEndian.Uint16(key)), nil
	case 3:
		if protocol := Protocol(key[2]); protocol.isKnown() {
			return PortValueFor(binary.BigEndian.Uint16(key), protocol), nil
		}
		return Value{}, fmt.Errorf("%x has an unknown protocol", key)
	case 4, 16:
		a, _ := netip.AddrFromSlice(key)
		return AddrValue(a), nil
	default:
		return Value{}, fmt.Errorf("%x is no key of a value", key)
	}
}

// Key returns the value in bytes: two for a port, three for a port of one protocol, four or sixteen
// for an address. Keys of one kind sort like their values.
func (v Value) Key() []byte {
	if v.IsAddr() {
		return v.addr.AsSlice()
	}
	key := binary.BigEndian.AppendUint16(make([]byte, 0, 3), v.port)
	if v.protocol != AllProtocols {
		key = append(key, byte(v.protocol))
	}
	return key
}

// IsAddr reports whether the value is an address.
func (v Value) IsAddr() bool { return v.addr.IsValid() }

// Addr returns the address. It is invalid for a port.
func (v Value) Addr() netip.Addr { return v.addr }

// Port returns the port. It is 0 for an address.
func (v Value) Port() uint16 { return v.port }

// Protocol returns the protocol of a port that is of one protocol only.
func (v Value) Protocol() Protocol { return v.protocol }

// Without returns the value for all protocols.
func (v Value) Without() Value { return Value{addr: v.addr, port: v.port} }

// String returns the value in text form, such as "10.96.0.1", "30080" or "30080/UDP".
func (v Value) String() string {
	switch {
	case v.IsAddr():
		return v.addr.String()
	case v.protocol != AllProtocols:
		return strconv.Itoa(int(v.port)) + "/" + v.protocol.String()
	default:
		return strconv.Itoa(int(v.port))
	}
}
