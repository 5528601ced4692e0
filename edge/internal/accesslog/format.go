package accesslog

import (
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Format is the format of the lines of a log.
type Format int

// The formats.
const (
	// ELB is the format of the access logs of the classic load balancers of the cloud.
	ELB Format = iota
	// JSON is one object of JSON for each line.
	JSON
)

// maxText is the largest length in bytes of a text that a client has sent, before it is escaped. A
// longer one ends in three dots.
const maxText = 4096

func appendTime(line []byte, at time.Time) []byte {
	return at.UTC().AppendFormat(line, "2006-01-02T15:04:05.000000Z")
}

// appendSeconds appends a duration in seconds with six digits after the point. strconv's formatting
// of floating-point numbers would be half the cost of a line.
func appendSeconds(line []byte, d time.Duration) []byte {
	micros := uint64(max(d, 0) / time.Microsecond) // #nosec G115 -- not negative
	line = append(strconv.AppendUint(line, micros/1_000_000, 10), '.')
	for unit := uint64(100_000); unit > 0; unit /= 10 {
		line = append(line, byte('0'+micros/unit%10)) // #nosec G115 -- a digit
	}
	return line
}

// appendAddr appends an address with its port. An IPv4 address that was accepted by a socket of IPv6
// is written as IPv4.
func appendAddr(line []byte, addr netip.AddrPort) []byte {
	return netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port()).AppendTo(line)
}

// hasPort reports whether the value of a header Host has a port.
func hasPort(host string) bool {
	colon := strings.LastIndexByte(host, ':')
	return colon >= 0 && colon > strings.LastIndexByte(host, ']') && (host[0] == '[' || strings.IndexByte(host, ':') == colon)
}
