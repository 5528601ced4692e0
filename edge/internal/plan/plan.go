package plan

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/backends"
	"portolan.dev/services/balancer"
	"portolan.dev/services/endpoints"
	"portolan.dev/services/object"
)

// Facts are the inputs of a plan that are the same for all services.
type Facts struct {
	// Zone is the zone of the edge; empty: unknown.
	Zone string
	// Groups are the named range sets of the configuration.
	Groups map[string][]netip.Prefix
	// Usable reports whether health checks admit a backend of a port; nil: all backends are usable.
	Usable func(frontend, backend netip.AddrPort) bool
}

// Port is one port of a service at one load-balancer address.
type Port struct {
	Frontend netip.AddrPort
	Service  object.Name
	UID      string
	Name     string // of the port; may be empty
	Settings *balancer.Settings
	TLS      bool // connections of clients are TLS
	// Certificates are the certificates for clients of the port.
	Certificates []balancer.CertificateRef
	// Restricted limits clients to Allowed.
	Restricted bool
	Allowed    []netip.Prefix
	// Server has the scheduler, the affinity, the drain time and the backends of the pool.
	Server backends.Server
}

// Result is the plan of one service.
type Result struct {
	Ports []Port // ordered by frontend
	// Problems describe the parts of the service that the plan ignores, each once.
	Problems []string
}

// Build plans one service of the class. The result is empty if svc is nil.
func Build(svc *corev1.Service, slicesOf []*corev1.EndpointSlice, settings *balancer.Settings, facts *Facts) Result {
	if svc == nil {
		return Result{}
	}
	b := &builder{svc: svc, settings: settings, facts: facts}
	b.backends = endpoints.NewSet(slices.SortedFunc(slices.Values(slicesOf), func(x, y *corev1.EndpointSlice) int {
		return cmp.Compare(x.GetMetadata().GetName(), y.GetMetadata().GetName())
	}), b.report)
	b.setRanges()
	for _, addr := range b.addresses() {
		for _, port := range svc.GetSpec().GetPorts() {
			if port.GetProtocol() == corev1.Protocol_PROTOCOL_TCP {
				b.addPort(addr, port)
			}
		}
	}
	slices.SortFunc(b.res.Ports, func(x, y Port) int { return x.Frontend.Compare(y.Frontend) })
	return b.res
}
