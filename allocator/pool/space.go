package pool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Space is an ordered range of values, which have indexes from 0. The zero value is empty.
type Space struct {
	prefix    netip.Prefix // addresses; invalid for ports
	first     uint64       // value of index 0: low 64 bits of the address, or the port
	size      uint64
	rangeSize uint64 // base of the size of the bands: 2^host bits, or the number of ports
	sections  uint64 // 3 if each port has a value for each protocol; the values of one protocol are neighbours

	avoidsBuggyIPs bool
}

// Addresses returns the usable addresses of a CIDR: for IPv4 all but the network and the broadcast
// address, for IPv6 all but the first, the subnet-router anycast address. All addresses of a range
// of one or two are usable. A range larger than a /64 is an error.
func Addresses(prefix netip.Prefix) (Space, error) {
	if !prefix.IsValid() {
		return Space{}, errors.New("no valid CIDR")
	}
	if prefix.Addr().Is4In6() {
		return Space{}, fmt.Errorf("%s has IPv4 addresses in the form of IPv6: write them as IPv4", prefix)
	}
	if prefix != prefix.Masked() {
		return Space{}, fmt.Errorf("%s has host bits set; did you mean %s?", prefix, prefix.Masked())
	}
	hostBits := prefix.Addr().BitLen() - prefix.Bits()
	if hostBits > 64 {
		return Space{}, fmt.Errorf("%s is larger than a /64; choose a /64 or a part of it", prefix)
	}
	s := Space{prefix: prefix, first: lowBits(prefix.Addr())}
	if hostBits == 64 {
		s.rangeSize = ^uint64(0) // one less than the true number, which changes no band
		s.first, s.size = s.first+1, ^uint64(0)
		return s, nil
	}
	s.rangeSize = 1 << hostBits
	s.size = s.rangeSize
	switch {
	case hostBits <= 1:
	case prefix.Addr().Is4():
		s.first, s.size = s.first+1, s.size-2
	default:
		s.first, s.size = s.first+1, s.size-1
	}
	return s, nil
}

// Ports returns the ports from first to last, both included.
func Ports(first, last uint16) (Space, error) {
	if first == 0 || last < first {
		return Space{}, fmt.Errorf("%d-%d is no range of ports", first, last)
	}
	n := uint64(last-first) + 1
	return Space{first: uint64(first), size: n, rangeSize: n}, nil
}

// PerProtocol returns a range of ports in which each port has one value for each protocol. Addresses
// are returned as they are.
func (s Space) PerProtocol() Space {
	if s.IsAddresses() || s.IsPerProtocol() {
		return s
	}
	s.sections = uint64(len(Protocols()))
	s.size *= s.sections
	return s
}

// IsPerProtocol reports whether each port has one value for each protocol.
func (s Space) IsPerProtocol() bool { return s.sections > 0 }

// Span returns the number of addresses or ports. It is Size unless the values are per protocol.
func (s Space) Span() uint64 { return s.size / max(s.sections, 1) }

// Parse parses a range in text form: a CIDR, "30000-32767", "30000+2767" or a single port.
func Parse(text string) (Space, error) {
	if strings.Contains(text, "/") {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return Space{}, fmt.Errorf("%q is no CIDR such as 10.96.0.0/16 or fd00:96::/112", text)
		}
		return Addresses(prefix)
	}
	first, last, err := parsePorts(text)
	if err != nil {
		return Space{}, fmt.Errorf("%q is no range of ports such as 30000-32767", text)
	}
	return Ports(first, last)
}

func parsePorts(text string) (first, last uint16, err error) {
	at := strings.IndexAny(text, "-+")
	from := text
	if at >= 0 {
		from = text[:at]
	}
	a, err := strconv.ParseUint(from, 10, 16)
	if err != nil || at < 0 {
		return uint16(a), uint16(a), err
	}
	b, err := strconv.ParseUint(text[at+1:], 10, 16)
	if err != nil {
		return 0, 0, err
	}
	if text[at] == '+' {
		b += a
	}
	if b > 65535 {
		return 0, 0, strconv.ErrRange
	}
	return uint16(a), uint16(b), nil
}

// Size returns the number of values.
func (s Space) Size() uint64 { return s.size }

// IsAddresses reports whether the values are addresses; otherwise they are ports.
func (s Space) IsAddresses() bool { return s.prefix.IsValid() }

// Prefix returns the CIDR of addresses.
func (s Space) Prefix() netip.Prefix { return s.prefix }

// String returns the range in the form that Parse reads.
func (s Space) String() string {
	if s.IsAddresses() {
		return s.prefix.String()
	}
	return fmt.Sprintf("%d-%d", s.first, s.first+s.Span()-1)
}

// Band returns how many of the first values are left to explicit requests while others are free:
// min(max(16, n/16), 256) addresses (KEP-3070), min(max(16, n/32), 128) ports (KEP-3668), and none
// if there are at most 16 values.
func (s Space) Band() uint64 {
	switch {
	case s.rangeSize <= 16:
		return 0
	case s.IsAddresses():
		return min(max(16, s.rangeSize/16), 256)
	default:
		return min(max(16, s.rangeSize/32), 128)
	}
}

// Value returns the value of an index below Size.
func (s Space) Value(i uint64) Value {
	n := s.first + i
	switch {
	case s.IsPerProtocol():
		return PortValueFor(uint16(s.first+i%s.Span()), Protocol(i/s.Span()+1))
	case !s.IsAddresses():
		return PortValue(uint16(n))
	case s.prefix.Addr().Is4():
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(n))
		return AddrValue(netip.AddrFrom4(b))
	default:
		b := s.prefix.Addr().As16()
		binary.BigEndian.PutUint64(b[8:], n)
		return AddrValue(netip.AddrFrom16(b))
	}
}

// Index returns the index of a value, and whether the value is in the space.
func (s Space) Index(v Value) (uint64, bool) {
	if v.IsAddr() != s.IsAddresses() || s.IsPerProtocol() != (v.protocol != AllProtocols) {
		return 0, false
	}
	var n uint64
	if v.IsAddr() {
		if !s.prefix.Contains(v.Addr()) {
			return 0, false
		}
		n = lowBits(v.Addr())
	} else {
		n = uint64(v.Port())
	}
	if n < s.first || n-s.first >= s.Span() {
		return 0, false
	}
	if s.IsPerProtocol() {
		return uint64(v.protocol-1)*s.Span() + n - s.first, true
	}
	return n - s.first, true
}

// HasNumber reports whether the range has an address or port, for any protocol.
func (s Space) HasNumber(v Value) bool {
	if s.IsPerProtocol() {
		v.protocol = TCP
	}
	_, ok := s.Index(v)
	return ok
}

// LeavesOut returns what an address of the CIDR is if it is not one of the space's values, such as "the network address
// of 10.98.0.0/24". It returns "" for values of the space, and for addresses outside the CIDR.
func (s Space) LeavesOut(v Value) string {
	if _, has := s.Index(v); has || !v.IsAddr() || !s.IsAddresses() || !s.prefix.Contains(v.Addr()) {
		return ""
	}
	switch {
	case v.Addr() != s.prefix.Addr():
		return fmt.Sprintf("the broadcast address of %s", s.prefix)
	case v.Addr().Is4():
		return fmt.Sprintf("the network address of %s", s.prefix)
	default:
		return fmt.Sprintf("the subnet-router anycast address of %s", s.prefix)
	}
}

// Contains reports whether every value of o is in s.
func (s Space) Contains(o Space) bool {
	if o.size == 0 || s.IsAddresses() != o.IsAddresses() {
		return false
	}
	_, first := s.Index(o.Value(0))
	_, last := s.Index(o.Value(o.size - 1))
	return first && last
}

// Overlaps reports whether the ranges have values in common.
func (s Space) Overlaps(o Space) bool {
	if s.IsAddresses() != o.IsAddresses() {
		return false
	}
	if s.IsAddresses() {
		return s.prefix.Overlaps(o.prefix)
	}
	return s.first < o.first+o.Span() && o.first < s.first+s.Span()
}

// lowBits returns the lowest 64 bits of an address, which identify it within a range of at most
// 2^64.
func lowBits(a netip.Addr) uint64 {
	b := a.As16()
	n := binary.BigEndian.Uint64(b[8:])
	if a.Is4() {
		n &= 1<<32 - 1
	}
	return n
}
