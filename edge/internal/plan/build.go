package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/backends"
	"portolan.dev/services/balancer"
	"portolan.dev/services/endpoints"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// builder builds the plan of one service.
type builder struct {
	svc      *corev1.Service
	backends *endpoints.Set
	settings *balancer.Settings
	facts    *Facts

	restricted bool
	allowed    []netip.Prefix
	res        Result
}

func (b *builder) report(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(b.res.Problems, text) {
		b.res.Problems = append(b.res.Problems, text)
	}
}

// setRanges sets the clients that the service admits, from its source ranges and its named range sets. A set that
// the configuration lacks admits no client, because it was meant to restrict access.
func (b *builder) setRanges() {
	ranges, malformed := spec.LoadBalancerSourceRanges(b.svc)
	for _, text := range malformed {
		b.report("source range %q is no CIDR", text)
	}
	b.restricted = len(ranges)+len(malformed)+len(b.settings.SourceGroups) > 0
	b.allowed = ranges
	for _, name := range b.settings.SourceGroups {
		group, known := b.facts.Groups[name]
		if !known {
			b.report("the source group %q is not in the edge's configuration: add it to -source-groups, or change the annotation", name)
		}
		b.allowed = append(b.allowed, group...)
	}
	slices.SortFunc(b.allowed, netip.Prefix.Compare)
	b.allowed = slices.Compact(b.allowed)
}

// addresses returns the load-balancer addresses of the service that edges serve, unless a label leaves the service
// to another proxy.
func (b *builder) addresses() []netip.Addr {
	if spec.ForeignProxy(b.svc.GetMetadata().GetLabels()) != "" {
		return nil
	}
	return spec.EdgeAddresses(b.svc)
}

// addPort plans one port at one address. It chooses backends of the address's family. If there are none, it
// chooses backends of the other family, because a proxy can connect them.
func (b *builder) addPort(addr netip.Addr, port *corev1.ServicePort) {
	frontend := netip.AddrPortFrom(addr, uint16(port.GetPort()))
	all := b.backends.Candidates(port, addr.Is6())
	if len(all) == 0 {
		all = b.backends.Candidates(port, !addr.Is6())
	}
	b.res.Ports = append(b.res.Ports, Port{
		Frontend: frontend, Service: object.NameOf(b.svc), UID: b.svc.GetMetadata().GetUid(), Name: port.GetName(),
		Settings: b.settings, TLS: b.settings.EndsTLS(port), Certificates: b.settings.CertificatesOf(port), Restricted: b.restricted, Allowed: b.allowed,
		Server: b.server(frontend, all),
	})
}

// prefersOwnZone reports whether backends of other zones get no new connections. That is so if cross-zone is off
// and a backend of the edge's zone is usable. Without a usable backend in the zone, traffic to other zones is
// better than an outage.
func (b *builder) prefersOwnZone(frontend netip.AddrPort, all []endpoints.Candidate) bool {
	zone := b.facts.Zone
	return !b.settings.CrossZone && zone != "" && slices.ContainsFunc(all, func(c endpoints.Candidate) bool {
		return c.Zone == zone && c.Ready && c.Weight > 0 && (b.facts.Usable == nil || b.facts.Usable(frontend, c.Addr))
	})
}

// server returns the server of a port's pool. If the edge's zone is preferred, backends of other zones have the
// weight 0 and keep their connections.
func (b *builder) server(frontend netip.AddrPort, all []endpoints.Candidate) backends.Server {
	service := b.svc.GetSpec()
	s := backends.Server{
		Scheduler: service.GetScheduler(), HashPort: hashesPort(service.GetSchedulerFlags()), Drain: b.drain(), FailOpen: true,
	}
	if service.GetSessionAffinity() == corev1.SessionAffinity_SESSION_AFFINITY_CLIENT_IP {
		seconds := service.GetSessionAffinityConfig().GetClientIp().GetTimeoutSeconds()
		if seconds <= 0 {
			seconds = spec.DefaultAffinitySeconds
		}
		s.Affinity = time.Duration(seconds) * time.Second
	}
	prefers := b.prefersOwnZone(frontend, all)
	for _, c := range endpoints.Choose(all, endpoints.All) {
		switch {
		case !c.Used:
		case c.Addr == frontend:
			b.report("the endpoint %s is the load balancer's own address", c.Addr)
		case prefers && c.Zone != b.facts.Zone:
			s.Backends = append(s.Backends, backends.Real{Addr: c.Addr})
		default:
			s.Backends = append(s.Backends, backends.Real{Addr: c.Addr, Weight: c.Weight})
		}
	}
	return s
}

// drain returns the time for which connections to a removed backend continue.
func (b *builder) drain() time.Duration {
	if !b.settings.Drain.Enabled {
		return 0
	}
	return b.settings.Drain.Timeout
}

// hashesPort reports whether the flags of the hashing schedulers add the client's port.
func hashesPort(flags []string) bool {
	return slices.Contains(flags, "sh-port") || slices.Contains(flags, "mh-port")
}
