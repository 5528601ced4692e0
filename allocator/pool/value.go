package pool

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
)

// Value is an address or a port. It is comparable, and sorts by Key. The zero value is no value.
type Value struct {
	addr netip.Addr
	port uint16
}

// AddrValue returns an address as a value.
func AddrValue(a netip.Addr) Value { return Value{addr: a.Unmap()} }

// PortValue returns a port as a value.
func PortValue(p uint16) Value { return Value{port: p} }

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

// ValueOfKey returns the value of a key that Key returned.
func ValueOfKey(key []byte) (Value, error) {
	switch len(key) {
	case 2:
		return PortValue(binary.BigEndian.Uint16(key)), nil
	case 4, 16:
		a, _ := netip.AddrFromSlice(key)
		return AddrValue(a), nil
	default:
		return Value{}, fmt.Errorf("%x is no key of a value", key)
	}
}

// Key returns the value in bytes: two for a port, four or sixteen for an address. Keys of one kind
// sort like their values.
func (v Value) Key() []byte {
	if v.IsAddr() {
		return v.addr.AsSlice()
	}
	return binary.BigEndian.AppendUint16(nil, v.port)
}

// IsAddr reports whether the value is an address.
func (v Value) IsAddr() bool { return v.addr.IsValid() }

// Addr returns the address. It is invalid for a port.
func (v Value) Addr() netip.Addr { return v.addr }

// Port returns the port. It is 0 for an address.
func (v Value) Port() uint16 { return v.port }

// String returns the value in text form.
func (v Value) String() string {
	if v.IsAddr() {
		return v.addr.String()
	}
	return strconv.Itoa(int(v.port))
}
