package dev

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
)

// Options say how the installation is laid out. All addresses are loopback addresses, but for Bind and DNSAddr where Insecure allows others.
type Options struct {
	DataDir       string         // everything that is kept
	Bind          netip.Addr     // address of every daemon; default 127.0.0.1
	ServiceCIDR   netip.Prefix   // virtual IPs
	PodCIDR       netip.Prefix   // addresses of pods
	NodePortRange string         // ports on the node
	DNSAddr       netip.AddrPort // where names are answered
	Zone          string         // DNS zone
	Node          string         // name of the only node
	Example       string         // folder of a manifest to apply, with three backends; empty: none
	LogLevel      slog.Level     // of all daemons
	Insecure      bool           // let other machines reach the daemons, which speak in the clear and ask nobody who they are
	TraceEndpoint string         // of an OpenTelemetry collector; empty: none
}

// Validate says what cannot be, field by field.
func (o *Options) Validate() error {
	var faults []error
	for _, one := range []struct {
		flag string
		addr netip.Addr
	}{{"--service-cidr", o.ServiceCIDR.Addr()}, {"--pod-cidr", o.PodCIDR.Addr()}} {
		if !one.addr.IsLoopback() {
			faults = append(faults, fmt.Errorf("%s: %s is not a loopback address; dev keeps to 127.0.0.0/8", one.flag, one.addr))
		}
	}
	for _, one := range []struct {
		flag string
		addr netip.Addr
	}{{"--bind", o.Bind}, {"--dns-addr", o.DNSAddr.Addr()}} {
		switch {
		case one.addr.IsLoopback(), o.Insecure && !one.addr.IsUnspecified():
		case one.addr.IsUnspecified():
			faults = append(faults, fmt.Errorf("%s: %s is every address; name one", one.flag, one.addr))
		default:
			faults = append(faults, fmt.Errorf("%s: other machines reach %s, and dev has no TLS: keep to 127.0.0.0/8, or accept it by --insecure", one.flag, one.addr))
		}
	}
	if o.ServiceCIDR.Overlaps(o.PodCIDR) {
		faults = append(faults, fmt.Errorf("--pod-cidr: %s overlaps the service range %s", o.PodCIDR, o.ServiceCIDR))
	}
	if bits := 32 - o.ServiceCIDR.Bits(); bits < 3 {
		faults = append(faults, fmt.Errorf("--service-cidr: %s has no room; use a /29 or larger", o.ServiceCIDR))
	}
	return errors.Join(faults...)
}

// Ports of the daemons' APIs; metrics and health are a hundred above.
const (
	registryPort    = 7400
	allocatorPort   = 7401
	endpointctlPort = 7402
	dnssvcPort      = 7403
	nodeagentPort   = 7404
	httpOffset      = 100
)

func (o *Options) addr(port int) string { return net.JoinHostPort(o.Bind.String(), strconv.Itoa(port)) }

func (o *Options) dir(name string) string { return filepath.Join(o.DataDir, name) }
