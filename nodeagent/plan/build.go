package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/endpoints"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// Facts are the properties of the node that Build depends on.
type Facts struct {
	Node string // the node's name
	Zone string // the node's zone; may be empty
	// NodePorts are the addresses that serve node ports, sorted.
	NodePorts []netip.Addr
	// Scheduler and Drain apply to services that do not set their own.
	Scheduler Scheduler
	Drain     time.Duration
	// MasqueradeAll replaces the source address of every client of a cluster IP, so that backends
	// never see it.
	MasqueradeAll bool
}

// Equal reports whether two sets of facts lead to the same plans.
func (f *Facts) Equal(o *Facts) bool {
	return f.Node == o.Node && f.Zone == o.Zone && slices.Equal(f.NodePorts, o.NodePorts) &&
		f.Scheduler == o.Scheduler && f.Drain == o.Drain && f.MasqueradeAll == o.MasqueradeAll
}

// HealthCheck is the health-check node port of a service, which load balancers query.
type HealthCheck struct {
	Port  uint16
	Local int // ready endpoints on this node
}

// Result is the plan of one service.
type Result struct {
	Service object.Name
	// Servers are the virtual servers in the order of their keys, each key once.
	Servers []*VirtualServer
	// Choices explain for every candidate endpoint why it is used or not. Choices[i] belongs to
	// Servers[i].
	Choices [][]endpoints.Choice
	// HealthCheck is nil if the service has no health-check node port.
	HealthCheck *HealthCheck
	// Problems describe invalid fields that the plan ignores, each once.
	Problems []string
}

// Build plans one service from its spec, its status and its EndpointSlices. It changes none of
// them. The plan is empty if the service is nil, has no spec, is headless or of type ExternalName,
// or has a label that assigns it to another proxy. EndpointSlices with such a label are ignored.
func Build(svc *corev1.Service, slicesOf []*corev1.EndpointSlice, facts *Facts) Result {
	b := builder{
		facts: facts, svc: svc, spec: svc.GetSpec(), planned: map[Key]bool{},
	}
	b.res.Service = object.NameOf(svc)
	if b.spec == nil || !object.NeedsClusterIP(svc) ||
		spec.ForeignProxy(svc.GetMetadata().GetLabels()) != "" {
		return b.res
	}
	b.slices = slices.DeleteFunc(slices.Clone(slicesOf), func(s *corev1.EndpointSlice) bool {
		return spec.ForeignProxy(s.GetMetadata().GetLabels()) != ""
	})
	slices.SortFunc(b.slices, func(a, c *corev1.EndpointSlice) int {
		return compare(a.GetMetadata().GetName(), c.GetMetadata().GetName())
	})
	b.endpoints = endpoints.NewSet(b.slices, b.report)
	b.setAttributes()
	for _, port := range b.spec.GetPorts() {
		b.addPort(port)
	}
	b.healthCheck()
	b.sort()
	return b.res
}

type builder struct {
	facts  *Facts
	svc    *corev1.Service
	spec   *corev1.ServiceSpec
	slices []*corev1.EndpointSlice

	endpoints *endpoints.Set // of slices

	attrs   Attributes // shared by all servers of the service
	planned map[Key]bool
	res     Result
}

func (b *builder) report(format string, args ...any) {
	if msg := fmt.Sprintf(format, args...); !slices.Contains(b.res.Problems, msg) {
		b.res.Problems = append(b.res.Problems, msg)
	}
}

// setAttributes sets the attributes that do not depend on the port.
func (b *builder) setAttributes() {
	b.attrs = Attributes{
		Service:   b.res.Service,
		Scheduler: cmp.Or(Scheduler(b.spec.GetScheduler()), b.facts.Scheduler, RoundRobin),
		Drain:     b.facts.Drain,
	}
	if b.attrs.Scheduler > Maglev {
		b.report("scheduler %d is unknown: rr is used", b.attrs.Scheduler)
		b.attrs.Scheduler = RoundRobin
	}
	b.attrs.Flags = flagsOf(b.spec.GetSchedulerFlags(), b.attrs.Scheduler)
	if b.spec.DrainTimeoutSeconds != nil {
		b.attrs.Drain = time.Duration(b.spec.GetDrainTimeoutSeconds()) * time.Second
	}
	if b.spec.GetSessionAffinity() == corev1.SessionAffinity_SESSION_AFFINITY_CLIENT_IP {
		b.attrs.Affinity = spec.DefaultAffinitySeconds * time.Second
		if s := b.spec.GetSessionAffinityConfig().GetClientIp().GetTimeoutSeconds(); s > 0 {
			b.attrs.Affinity = time.Duration(s) * time.Second
		}
	}
}

// flagsOf parses the scheduler flags of a service. The flags sh-fallback and mh-fallback change
// nothing, because planes always use another backend if the hashed one takes no new connections.
func flagsOf(names []string, s Scheduler) Flags {
	hashes := s == SourceHash || s == Maglev
	if hashes && (slices.Contains(names, "sh-port") || slices.Contains(names, "mh-port")) {
		return HashPort
	}
	return 0
}

// addPort plans one port of the service in both address families.
func (b *builder) addPort(port *corev1.ServicePort) {
	if n := port.GetPort(); n < 1 || n > 65535 {
		b.report("port %q is %d, which is no port", port.GetName(), n)
		return
	}
	for _, v6 := range []bool{false, true} {
		addrs := b.frontends(port, v6)
		if len(addrs) == 0 {
			continue
		}
		b.addFamily(port, addrs, b.endpoints.Candidates(port, v6))
	}
}

// frontendAddr is an address and port at which the service is reachable.
type frontendAddr struct {
	addr     netip.AddrPort
	exposure Exposure
}

// frontends returns the addresses at which clients reach one port of the service in one address
// family.
func (b *builder) frontends(port *corev1.ServicePort, v6 bool) []frontendAddr {
	var out []frontendAddr
	add := func(text string, e Exposure) {
		addr, err := netip.ParseAddr(strings.TrimSpace(text))
		if err != nil || addr.Zone() != "" || addr.IsUnspecified() || addr.Is4In6() {
			b.report("%s %q is no address to serve", e, text)
			return
		}
		if addr.Is6() == v6 {
			out = append(out, frontendAddr{netip.AddrPortFrom(addr, uint16(port.GetPort())), e})
		}
	}
	for _, ip := range object.ClusterIPs(b.svc) {
		add(ip, ClusterIP)
	}
	for _, ip := range b.spec.GetExternalIps() {
		add(ip, ExternalIP)
	}
	if b.spec.GetType() == corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER {
		for _, in := range b.svc.GetStatus().GetLoadBalancer().GetIngress() {
			if in.GetIp() != "" && in.GetIpMode() != corev1.IPMode_IP_MODE_PROXY {
				add(in.GetIp(), LoadBalancerIP)
			}
		}
	}
	if n := port.GetNodePort(); n > 0 && n <= 65535 && hasNodePorts(b.spec) {
		for _, addr := range b.facts.NodePorts {
			if addr.Is6() == v6 {
				out = append(out, frontendAddr{netip.AddrPortFrom(addr, uint16(n)), NodePort})
			}
		}
	}
	return out
}

func hasNodePorts(spec *corev1.ServiceSpec) bool {
	t := spec.GetType()
	return t == corev1.ServiceType_SERVICE_TYPE_NODE_PORT || t == corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER
}

// addFamily makes the servers of one port in one address family.
func (b *builder) addFamily(port *corev1.ServicePort, addrs []frontendAddr, all []endpoints.Candidate) {
	cluster := clusterPool(all, hintsWanted(b.svc), b.facts)
	local := localPool(all, b.facts)
	for _, e := range addrs {
		attrs := b.attrs
		attrs.PortName, attrs.Exposure = port.GetName(), e.exposure
		key := Key{Frontend: Frontend{e.addr, protocolOf(port.GetProtocol())}}
		switch {
		case e.exposure == ClusterIP:
			attrs.Masquerade = MasqueradeOutside
			if b.facts.MasqueradeAll {
				attrs.Masquerade = MasqueradeAlways
			}
			chosen := cluster
			if b.spec.GetInternalTrafficPolicy() == corev1.TrafficPolicy_TRAFFIC_POLICY_LOCAL {
				chosen = local
			}
			b.add(key, attrs, chosen)
		case b.spec.GetExternalTrafficPolicy() == corev1.TrafficPolicy_TRAFFIC_POLICY_LOCAL:
			b.addLocal(key, attrs, cluster, local)
		default:
			attrs.Masquerade = MasqueradeAlways
			b.restrict(&attrs, e)
			b.add(key, attrs, cluster)
		}
	}
}

// addLocal makes the two servers of a frontend with external traffic policy Local. External clients
// reach local backends only, internal clients reach all backends. Backends see the client's address
// in both cases. Only the node's own packets are masqueraded, because their source address is the
// frontend's.
func (b *builder) addLocal(key Key, attrs Attributes, cluster, local selection) {
	b.restrict(&attrs, frontendAddr{key.Addr, attrs.Exposure})
	inside := attrs
	inside.Masquerade = MasqueradeOutside
	if len(cluster.reals) > 0 {
		attrs.WithoutBackends = Drop // backends exist on other nodes
	}
	key.Audience = Internal
	b.add(key, inside, cluster)
	key.Audience = External
	b.add(key, attrs, local)
}

// add adds a server unless the service already has one for the same traffic.
func (b *builder) add(key Key, attrs Attributes, p selection) {
	anyone, internal := key, key
	anyone.Audience, internal.Audience = AnyClient, Internal
	if b.planned[key] || b.planned[anyone] || key.Audience == AnyClient && b.planned[internal] {
		return
	}
	b.planned[key] = true
	b.res.Servers = append(b.res.Servers, &VirtualServer{Key: key, Attributes: attrs, Reals: p.reals})
	b.res.Choices = append(b.res.Choices, p.choices)
}

// sort sorts the servers by key, and the choices with them.
func (b *builder) sort() {
	order := make([]int, len(b.res.Servers))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return b.res.Servers[i].Key.Compare(b.res.Servers[j].Key) })
	servers, choices := make([]*VirtualServer, len(order)), make([][]endpoints.Choice, len(order))
	for to, from := range order {
		servers[to], choices[to] = b.res.Servers[from], b.res.Choices[from]
	}
	b.res.Servers, b.res.Choices = servers, choices
}
