package health

import (
	"cmp"
	"net/netip"
	"strings"
	"time"

	"portolan.dev/services/probe"
)

// Protocol is the protocol of a check.
type Protocol int

// The protocols.
const (
	// None makes no checks. Backends are usable.
	None Protocol = iota
	// TCP connects.
	TCP
	// TLS makes a handshake.
	TLS
	// HTTP and HTTPS send a request. A status from 200 to 399 is a success.
	HTTP
	HTTPS
	// GRPC calls the method Check of grpc.health.v1.
	GRPC
)

// Settings are the settings of checks. Groups with equal settings share checks.
type Settings struct {
	Protocol Protocol
	// Path is the path of the request of HTTP and HTTPS, and the name of the service of GRPC.
	Path string
	// Port is the port to check, or 0 for the backend's own.
	Port uint16
	// Interval is the time from one check to the next, and Timeout the time limit of one check.
	Interval, Timeout time.Duration
	// Healthy is the number of successes in a row that make a backend usable, and Unhealthy the number of
	// failures in a row that make it unusable.
	Healthy, Unhealthy int
}

// target returns the address that is checked for a backend.
func (s *Settings) target(backend netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(backend.Addr(), cmp.Or(s.Port, backend.Port()))
}

// attempt returns the attempt of a check.
func (s *Settings) attempt(target netip.AddrPort) probe.Check {
	addr := target.String()
	path := "/" + strings.TrimPrefix(s.Path, "/")
	switch s.Protocol {
	case HTTP:
		return probe.HTTP(probe.Get{URL: "http://" + addr + path})
	case HTTPS:
		return probe.HTTP(probe.Get{URL: "https://" + addr + path})
	case TLS:
		return probe.TLS(addr)
	case GRPC:
		return probe.GRPC(addr, path[1:])
	case TCP, None:
	}
	return probe.TCP(addr)
}

// Status is the state of a backend.
type Status struct {
	Backend netip.AddrPort
	Usable  bool
	// Reason is the reason why the backend is not usable.
	Reason string
	// Since is the time at which Usable last changed.
	Since time.Time
}

func compareStatus(a, b Status) int { return a.Backend.Compare(b.Backend) }
