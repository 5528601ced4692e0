package zone

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/miekg/dns"
)

// Names are strings in wire format and lower case, such as "\x03web\x00". Length bytes are less
// than 'A', so a whole name can be put into lower case byte by byte, and a suffix of labels is a
// suffix of bytes.

// ParseName converts a name from text, with or without the final dot.
func ParseName(text string) (string, error) {
	var buf [maxName]byte // the library by itself accepts one byte more
	n, err := dns.PackDomainName(dns.Fqdn(text), buf[:], 0, nil, false)
	if err != nil {
		return "", fmt.Errorf("%q is no domain name: %w", text, err)
	}
	Lower(buf[:n])
	return string(buf[:n]), nil
}

// Text converts a name to text, with the final dot.
func Text(name string) string {
	text, _, err := dns.UnpackDomainName([]byte(name), 0)
	if err != nil {
		return fmt.Sprintf("%q", name) // impossible for names made by this package
	}
	return text
}

// Lower puts a name in wire format into lower case, in place.
func Lower(name []byte) {
	for i, c := range name {
		if c >= 'A' && c <= 'Z' {
			name[i] = c + 'a' - 'A'
		}
	}
}

// Parent returns the name without its first label. The parent of the root is "".
func Parent(name string) string {
	if len(name) <= 1 {
		return ""
	}
	return name[1+int(name[0]):]
}

// maxName is the length of the longest name in wire format, in bytes (RFC 1035).
const maxName = 255

// label returns text as a label in wire format. It returns "" if text is empty or too long for a
// label.
func label(text string) string {
	if text == "" || len(text) > 63 {
		return ""
	}
	return string([]byte{byte(len(text))}) + strings.ToLower(text)
}

// Dashed returns the label of an address, such as 10-1-2-3 or 2001-db8--1. A label must not end in
// a dash, so a zero is appended to one that would.
func Dashed(addr netip.Addr) string {
	text := strings.NewReplacer(".", "-", ":", "-").Replace(addr.WithZone("").String())
	if strings.HasSuffix(text, "-") {
		text += "0"
	}
	return text
}

// parseDashed is the inverse of Dashed. It also accepts other spellings of the same address.
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

// ReverseName returns the name of the PTR records of an address.
func ReverseName(addr netip.Addr) string {
	addr = addr.Unmap()
	return reverseZone(netip.PrefixFrom(addr, addr.BitLen()))
}

// reverseZone returns the name of a prefix that ends on the boundary of a label: 8 bits in IPv4, 4
// bits in IPv6.
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

// reverseZones returns the zones that together cover the prefix. That is one zone if the prefix
// ends on the boundary of a label. Otherwise it is one zone for each extension of the prefix to the
// next boundary.
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
		addr, _ := netip.AddrFromSlice(raw) // of the same length, therefore valid
		names = append(names, reverseZone(netip.PrefixFrom(addr, bits)))
	}
	return names
}
