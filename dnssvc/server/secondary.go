package server

import (
	"errors"
	"net/netip"
	"strings"
)

// Secondary is a name server that copies zones, and is told when they have changed.
type Secondary struct {
	Addr netip.AddrPort
	Key  string // name of the key that signs what it is told, as Keys has it; empty: none does
}

// UnmarshalText implements encoding.TextUnmarshaler: "192.0.2.1:53" or "192.0.2.1:53#key-name".
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

// String returns the secondary as UnmarshalText reads it.
func (s Secondary) String() string {
	if s.Key == "" {
		return s.Addr.String()
	}
	return s.Addr.String() + "#" + strings.TrimSuffix(s.Key, ".")
}
