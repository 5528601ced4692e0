package zone

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/miekg/dns"
)

// Names are strings in wire format and lower case, "\x03web\x00". Length bytes are below 'A', so a whole name is put into lower case byte by
// byte, and a suffix of labels is a suffix of bytes.

// ParseName reads a name as people write it, with or without the final dot.
func ParseName(text string) (string, error) {
	var buf [maxName]byte // the library alone would let one byte more through
	n, err := dns.PackDomainName(dns.Fqdn(text), buf[:], 0, nil, false)
	if err != nil {
		return "", fmt.Errorf("%q is no domain name: %w", text, err)
	}
	Lower(buf[:n])
	return string(buf[:n]), nil
}

// Text writes a name as people read it, with the final dot.
func Text(name string) string {
	text, _, err := dns.UnpackDomainName([]byte(name), 0)
	if err != nil {
		return fmt.Sprintf("%q", name) // never happens to names made by this package
	}
	return text
}

// Lower puts a name in wire format into lower case.
func Lower(name []byte) {
	for i, c := range name {
		if c >= 'A' && c <= 'Z' {
			name[i] = c + 'a' - 'A'
		}
	}
}

// Parent takes the first label away; the parent of the root is "".
func Parent(name string) string {
	if len(name) <= 1 {
		return ""
	}
	return name[1+int(name[0]):]
}

// maxName is the longest name in wire format.
const maxName = 255

// label returns text as a label in wire format; "" where it is none.
func label(text string) string {
	if text == "" || len(text) > 63 {
		return ""
	}
	return string([]byte{byte(len(text))}) + strings.ToLower(text)
}

// Dashed is the label of an address: 10-1-2-3, 2001-db8--1. One that would end in a dash, which labels must not, gets a zero.
func Dashed(addr netip.Addr) string {
	text := strings.NewReplacer(".", "-", ":", "-").Replace(addr.WithZone("").String())
	if strings.HasSuffix(text, "-") {
		text += "0"
	}
	return text
}

// parseDashed is the inverse of Dashed. It also takes other spellings of the same address.
func parseDashed(text string) (netip.Addr, bool) {
	if strings.Count(text, "-") == 3 {
		if addr, err := netip.ParseAddr(strings.ReplaceAll(text, "-", ".")); err == nil {
			return addr, true
		}
	}
	addr, err := netip.ParseAddr(strings.ReplaceAll(text, "-", ":"))
	return addr, err == nil && !addr.Is4In6()
}

var arpa = map[bool]string{true: "\x07in-addr\x04arpa\x00", false: "\x03ip6\x04arpa\x00"}

// ReverseName is the name at which the PTR records of an address stand.
func ReverseName(addr netip.Addr) string {
	addr = addr.Unmap()
	return reverseZone(netip.PrefixFrom(addr, addr.BitLen()))
}

// reverseZone is the name of a prefix that ends on a label's boundary: 8 bits in IPv4, 4 in IPv6.
func reverseZone(p netip.Prefix) string {
	var b strings.Builder
	raw := p.Addr().AsSlice()
	if p.Addr().Is4() {
		for i := p.Bits()/8 - 1; i >= 0; i-- {
			b.WriteString(label(strconv.Itoa(int(raw[i]))))
		}
	} else {
		const digits = "0123456789abcdef"
		for i := p.Bits()/4 - 1; i >= 0; i-- {
			nibble := raw[i/2] >> (4 * (1 - i%2)) & 0xf
			b.WriteString("\x01" + digits[nibble:nibble+1])
		}
	}
	b.WriteString(arpa[p.Addr().Is4()])
	return b.String()
}

// reverseZones are the zones that together are the prefix: one where it ends on a label's boundary, otherwise one for each way to go on to
// the next boundary.
func reverseZones(p netip.Prefix) []string {
	p = p.Masked()
	step := 4
	if p.Addr().Is4() {
		step = 8
	}
	bits := (p.Bits() + step - 1) / step * step
	var names []string
	for i := range 1 << (bits - p.Bits()) {
		raw := p.Addr().AsSlice()
		last := max(bits-1, 0) / 8
		raw[last] |= byte(i << ((8 - bits%8) % 8))
		addr, _ := netip.AddrFromSlice(raw) // as long as it was
		names = append(names, reverseZone(netip.PrefixFrom(addr, bits)))
	}
	return names
}
