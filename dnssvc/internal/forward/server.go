package forward

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Server is an upstream name server. It is asked by UDP, with TCP for answers that do not fit, or
// over TLS alone.
type Server struct {
	Addr netip.AddrPort
	TLS  bool
	Name string // name in its certificate; empty: its address
}

const (
	tlsScheme = "tls://"
	tlsPort   = 853
)

// UnmarshalText implements encoding.TextUnmarshaler. It reads "192.0.2.1:53",
// "tls://192.0.2.1#dns.example" or "tls://192.0.2.1:853". It reads addresses only, because a name
// would have to be resolved first.
func (s *Server) UnmarshalText(text []byte) error {
	rest, overTLS := strings.CutPrefix(string(text), tlsScheme)
	rest, name, named := strings.Cut(rest, "#")
	if named && (!overTLS || name == "") {
		return errors.New("want a name after #, and only with tls://")
	}
	addr, err := netip.ParseAddrPort(rest)
	if err != nil && overTLS {
		var alone netip.Addr
		alone, err = netip.ParseAddr(strings.Trim(rest, "[]"))
		addr = netip.AddrPortFrom(alone, tlsPort)
	}
	if err != nil {
		return errors.New("want ADDRESS:PORT, or tls://ADDRESS[:PORT][#NAME]")
	}
	*s = Server{Addr: addr, TLS: overTLS, Name: name}
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (s Server) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String returns the server in the form that UnmarshalText reads.
func (s Server) String() string {
	switch {
	case !s.TLS:
		return s.Addr.String()
	case s.Name == "":
		return tlsScheme + s.Addr.String()
	}
	return fmt.Sprintf("%s%s#%s", tlsScheme, s.Addr, s.Name)
}
