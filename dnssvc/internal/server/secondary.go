package server

import (
	"errors"
	"net/netip"
	"strings"
)

// Secondary is a name server that copies zones and is notified of their changes.
type Secondary struct {
	Addr netip.AddrPort
	Key  string // name in Keys of the key that signs notifications; empty if they are not signed
}

// UnmarshalText implements encoding.TextUnmarshaler. It reads "192.0.2.1:53" or
// "192.0.2.1:53#key-name".
func (s *Secondary) UnmarshalText(text []byte) error {
	rest, key, signed := strings.Cut(string(text), "#")
	addr, err := netip.ParseAddrPort(rest)
	if err != nil || signed && key == "" {
		return errors.New("want ADDRESS:PORT or ADDRESS:PORT#KEY")
	}
	*s = Secondary{Addr: addr}
	if signed {
		s.Key = KeyName(key)
	}
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (s Secondary) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String returns the secondary in the form that UnmarshalText reads.
func (s Secondary) String() string {
	if s.Key == "" {
		return s.Addr.String()
	}
	return s.Addr.String() + "#" + strings.TrimSuffix(s.Key, ".")
}
