package dev

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
)

// Options are the settings of the installation. IPv4 addresses must be loopback addresses, except
// for Bind and DNSAddr if Insecure is true.
type Options struct {
	DataDir       string         // folder of all stored data
	Bind          netip.Addr     // address of every daemon; default 127.0.0.1
	ServiceCIDR   []netip.Prefix // virtual IPs, at most one range per family
	PodCIDR       []netip.Prefix // addresses of pods, of the same families
	BalancerCIDR  []netip.Prefix // addresses of load balancers, at most one range per family; empty: none
	NodePortRange string         // ports on the node
	DNSAddr       netip.AddrPort // address of the name server
	Zone          string         // DNS zone
	Node          string         // name of the only node
	Example       string         // folder of a manifest to apply, with three backends; empty: none
	Docker        string         // socket of a Docker engine, to register its containers; empty: none
	LogLevel      slog.Level     // of all daemons
	// Insecure lets other machines reach the daemons, which use no TLS and check the token only, and
	// the services' external addresses.
	Insecure      bool
	TraceEndpoint string // of an OpenTelemetry collector; empty: none
}

// DockerSocket is the path of the socket at which Docker's engine listens by default.
const DockerSocket = "/var/run/docker.sock"

// Validate returns the invalid fields, joined.
func (o *Options) Validate() error {
	var faults []error
	faults = append(faults, checkRanges("--service-cidr", o.ServiceCIDR)...)
	faults = append(faults, checkRanges("--pod-cidr", o.PodCIDR)...)
	if len(o.BalancerCIDR) > 0 {
		faults = append(faults, checkRanges("--load-balancer-cidr", o.BalancerCIDR)...)
	}
	for _, one := range o.BalancerCIDR {
		if slices.ContainsFunc(slices.Concat(o.ServiceCIDR, o.PodCIDR), one.Overlaps) {
			faults = append(faults, fmt.Errorf("--load-balancer-cidr: %s overlaps the range of services or pods", one))
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
	for _, services := range o.ServiceCIDR {
		for _, pods := range o.PodCIDR {
			if services.Overlaps(pods) {
				faults = append(faults, fmt.Errorf("--pod-cidr: %s overlaps the service range %s", pods, services))
			}
		}
		if room := services.Addr().BitLen() - services.Bits(); room < 3 {
			faults = append(faults, fmt.Errorf("--service-cidr: %s has no room; use a /%d or larger", services, services.Addr().BitLen()-3))
		}
	}
	return errors.Join(faults...)
}

// checkRanges returns an error for each range that is not local to this machine. IPv6 has only one
// loopback address, so IPv6 ranges must be unique local ones. [Options.Bindable] checks them
// against the routes of the machine.
func checkRanges(flag string, ranges []netip.Prefix) (faults []error) {
	if len(ranges) == 0 {
		faults = append(faults, fmt.Errorf("%s: name a range", flag))
	}
	for i, one := range ranges {
		switch {
		case one.Addr().Is4() && !one.Addr().IsLoopback():
			faults = append(faults, fmt.Errorf("%s: %s is not a loopback address; dev keeps to 127.0.0.0/8", flag, one.Addr()))
		case one.Addr().Is6() && !one.Addr().IsPrivate():
			faults = append(faults, fmt.Errorf("%s: %s is not a unique local address; dev keeps to fc00::/7, such as fd00:7f60::/112", flag, one.Addr()))
		case slices.ContainsFunc(ranges[:i], func(other netip.Prefix) bool { return other.Addr().Is4() == one.Addr().Is4() }):
			faults = append(faults, fmt.Errorf("%s: %s is a second range of its family; name one IPv4 and one IPv6 range", flag, one))
		}
	}
	return faults
}

// Bindable returns an error for each range in which no program of this machine can listen, with the
// remedy.
func (o *Options) Bindable() error {
	var faults []error
	for _, one := range slices.Concat(o.ServiceCIDR, o.PodCIDR, o.BalancerCIDR) {
		if err := bindable(one); err != nil {
			faults = append(faults, fmt.Errorf("no program can listen in %s: %w%s", one, err, remedy(runtime.GOOS, one)))
		}
	}
	return errors.Join(faults...)
}

// mostTried is the number of addresses of a range that are tried.
const mostTried = 32

// bindable returns the error of listening on the first addresses of a range.
func bindable(one netip.Prefix) error {
	for addr, n := one.Masked().Addr().Next(), 0; one.Contains(addr) && n < mostTried; addr, n = addr.Next(), n+1 {
		lis, err := net.Listen("tcp", netip.AddrPortFrom(addr, 0).String())
		if err != nil {
			return err
		}
		_ = lis.Close()
	}
	return nil
}

// remedy returns the advice for a range in which no program can listen. Linux and Windows have all of
// 127.0.0.0/8. macOS has 127.0.0.1 only, and each other address must be an alias of its loopback
// interface, so the range should be small.
func remedy(goos string, one netip.Prefix) string {
	first := one.Masked().Addr()
	switch {
	case goos == "darwin" && first.Is4():
		small := netip.PrefixFrom(first, max(one.Bits(), 27))
		octets, count := first.As4(), 1<<(32-small.Bits())
		return fmt.Sprintf("; each address has to be an alias of lo0 here. For the range %s: for n in {%d..%d}; do sudo ifconfig lo0 alias %d.%d.%d.$n; done",
			small, int(octets[3])+1, int(octets[3])+count-1, octets[0], octets[1], octets[2])
	case goos == "darwin":
		return fmt.Sprintf("; each address has to be an alias of lo0 here, such as: sudo ifconfig lo0 inet6 alias %s/128", first.Next())
	case goos == "linux" && first.Is6():
		return fmt.Sprintf("; make the range local: sudo ip -6 route add local %s dev lo && sudo sysctl -w net.ipv6.ip_nonlocal_bind=1", one.Masked())
	}
	return ""
}

// Ports of the daemons' APIs. Metrics and health are at these ports plus httpOffset.
const (
	registryPort    = 7400
	allocatorPort   = 7401
	endpointctlPort = 7402
	lbctlPort       = 7406
	dnssvcPort      = 7403
	nodeagentPort   = 7404
	kubeapiPort     = 7405
	edgePort        = 7407
	registrarPort   = 7408
	httpOffset      = 100
)

func (o *Options) addr(port int) string { return net.JoinHostPort(o.Bind.String(), strconv.Itoa(port)) }

func (o *Options) dir(name string) string { return filepath.Join(o.DataDir, name) }
