package edge

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"portolan.dev/services/daemon"
)

// Config is the configuration of the daemon.
type Config struct {
	daemon.Common `default:"addr=127.0.0.1:7407 http-addr=127.0.0.1:7507"`

	Registry string `flag:"registry" default:"127.0.0.1:7400" usage:"host:port of the registry's gRPC API; several, comma separated"`
	DataDir  string `flag:"data-dir" usage:"folder of the last view, which has the keys of certificates, and from which to start if the registry is unavailable; empty: none"`

	NodeName string         `flag:"node-name" usage:"name of the node; empty: that of the certificate, or the host name"`
	Agent    string         `flag:"agent" default:"127.0.0.1:7404" usage:"host:port of the node's agent, which makes load-balancer addresses local and announces those that the edge serves; empty: the addresses belong to the machine already"`
	Ranges   []netip.Prefix `flag:"ranges" usage:"ranges in which the edge may listen; services at other addresses are not served, and get an event; empty: all load-balancer addresses"`

	CertsDir     string        `flag:"certs-dir" usage:"folder of certificates that services name: NAME.crt and NAME.key (PEM), read again when they change; empty: only those of secrets"`
	AccessLogDir string        `flag:"access-log-dir" usage:"folder below which the access logs of services are written; empty: services that ask for one get an event"`
	SourceGroups []SourceGroup `flag:"source-groups" usage:"named sets of ranges that services may admit, as NAME=CIDR+CIDR, comma separated"`

	LameDuck       time.Duration `flag:"lame-duck" default:"1s" usage:"time for which connections are accepted after the signal to stop, in which the addresses move to other nodes"`
	StopTimeout    time.Duration `flag:"stop-timeout" default:"60s" usage:"time for which connections may continue after -lame-duck"`
	HandshakeLimit time.Duration `flag:"handshake-timeout" default:"10s" usage:"time limit of a PROXY header, of a TLS handshake, and of the head of an HTTP request"`
	MaxConns       int           `flag:"max-conns" default:"100000" usage:"maximum number of connections of one port"`
	MaxPerClient   int           `flag:"max-conns-per-client" default:"10000" usage:"maximum number of connections of one client address at one port; 0: as many as max-conns"`
	MaxHandshakes  int           `flag:"max-handshakes" default:"4096" usage:"maximum number of connections of one port whose handshake is not complete"`
	MaxHeader      int           `flag:"max-header-bytes" default:"65536" usage:"largest head of an HTTP request, in bytes"`
}

// SourceGroup is a named set of ranges.
type SourceGroup struct {
	Name   string
	Ranges []netip.Prefix
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (g *SourceGroup) UnmarshalText(text []byte) error {
	name, list, ok := strings.Cut(string(text), "=")
	if !ok || name == "" || list == "" {
		return fmt.Errorf("%q: want NAME=CIDR, several with +, such as office=192.0.2.0/24+2001:db8::/48", text)
	}
	g.Name, g.Ranges = name, nil
	for part := range strings.SplitSeq(list, "+") {
		prefix, err := netip.ParsePrefix(part)
		if err != nil {
			return fmt.Errorf("%q: %q is no CIDR", text, part)
		}
		g.Ranges = append(g.Ranges, prefix.Masked())
	}
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (g SourceGroup) MarshalText() ([]byte, error) {
	texts := make([]string, len(g.Ranges))
	for i, prefix := range g.Ranges {
		texts[i] = prefix.String()
	}
	return []byte(g.Name + "=" + strings.Join(texts, "+")), nil
}

// DataFolder returns the folder of the daemon's data, or "" if none is configured.
func (c *Config) DataFolder() string { return c.DataDir }

// Limits of the configuration.
const (
	minHandshake = 100 * time.Millisecond
	minHeader    = 1 << 10
	maxHeader    = 1 << 20
)

// Validate returns all errors of the configuration, joined.
func (c *Config) Validate() error {
	errs := []error{c.Common.Validate()}
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	groups := map[string]bool{}
	for _, g := range c.SourceGroups {
		bad(groups[g.Name], "source-groups: the group %q is there twice; join its ranges with +", g.Name)
		groups[g.Name] = true
	}
	bad(c.StopTimeout < 0, "stop-timeout: must not be negative")
	bad(c.HandshakeLimit < minHandshake, "handshake-timeout: %s is less than %s", c.HandshakeLimit, minHandshake)
	bad(c.MaxConns < 1, "max-conns: must be at least 1")
	bad(c.MaxPerClient < 0, "max-conns-per-client: must not be negative")
	bad(c.LameDuck < 0, "lame-duck: must not be negative")
	bad(c.MaxHandshakes < 1, "max-handshakes: must be at least 1")
	bad(c.MaxHeader < minHeader || c.MaxHeader > maxHeader, "max-header-bytes: %d is not in %d-%d", c.MaxHeader, minHeader, maxHeader)
	return errors.Join(errs...)
}

// groups returns the named sets of ranges.
func (c *Config) groups() map[string][]netip.Prefix {
	groups := make(map[string][]netip.Prefix, len(c.SourceGroups))
	for _, g := range c.SourceGroups {
		groups[g.Name] = g.Ranges
	}
	return groups
}
