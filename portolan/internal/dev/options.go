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

// Options say how the installation is laid out. All addresses are loopback addresses.
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
	TraceEndpoint string         // of an OpenTelemetry collector; empty: none
}

// Validate says what cannot be, field by field.
func (o *Options) Validate() error {
	var faults []error
	for name, addr := range map[string]netip.Addr{"--bind": o.Bind, "--service-cidr": o.ServiceCIDR.Addr(), "--pod-cidr": o.PodCIDR.Addr(), "--dns-addr": o.DNSAddr.Addr()} {
		if !addr.IsLoopback() {
			faults = append(faults, fmt.Errorf("%s: %s is not a loopback address; dev keeps to 127.0.0.0/8", name, addr))
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
