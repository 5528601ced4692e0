package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "portolan.dev/proto/portolan/core/v1"
	"portolan.dev/services/spec"
)

// defaultAffinity is how long ClientIP affinity lasts unless told otherwise.
const defaultAffinity = 3 * time.Hour

// Facts are what Build needs to know of the node.
type Facts struct {
	Node string // name
	Zone string // of the node; may be empty
	// NodePorts are the addresses that serve node ports, sorted.
	NodePorts []netip.Addr
	// Scheduler and Drain are for services that do not say.
	Scheduler Scheduler
	Drain     time.Duration
	// MasqueradeAll hides all clients of cluster IPs from backends.
	MasqueradeAll bool
}

// Equal tells whether two sets of facts lead to the same plans.
func (f *Facts) Equal(o *Facts) bool {
	return f.Node == o.Node && f.Zone == o.Zone && slices.Equal(f.NodePorts, o.NodePorts) &&
		f.Scheduler == o.Scheduler && f.Drain == o.Drain && f.MasqueradeAll == o.MasqueradeAll
}

// HealthCheck is what a load balancer may ask the node about a service.
type HealthCheck struct {
	Port  uint16
	Local int // ready endpoints on this node
}

// Result is the plan of one service.
type Result struct {
	Service ServiceName
	// Servers are the virtual servers, each frontend and audience once, by key.
	Servers []*VirtualServer
	// Choices tell of every endpoint why it is in or out, in the order of Servers.
	Choices [][]Choice
	// HealthCheck is nil where the service has none.
	HealthCheck *HealthCheck
	// Problems are what was left out because it makes no sense, each once.
	Problems []string
}

// Build plans one service from its spec, its status and its slices. Neither is
// changed. A nil service, or one without a spec, has an empty plan, and so has
// one whose labels leave it to another proxy. Slices with such labels do not
// count.
func Build(svc *corev1.Service, slicesOf []*corev1.EndpointSlice, facts *Facts) Result {
	b := builder{
		facts: facts, svc: svc, spec: svc.GetSpec(), taken: map[Key]bool{},
	}
	b.res.Service = ServiceName{svc.GetMetadata().GetNamespace(), svc.GetMetadata().GetName()}
	if b.spec == nil || b.spec.GetType() == corev1.ServiceType_SERVICE_TYPE_EXTERNAL_NAME || headless(b.spec) ||
		spec.ForeignProxy(svc.GetMetadata().GetLabels()) != "" {
		return b.res
	}
	b.slices = slices.DeleteFunc(slices.Clone(slicesOf), func(s *corev1.EndpointSlice) bool {
		return spec.ForeignProxy(s.GetMetadata().GetLabels()) != ""
	})
	slices.SortFunc(b.slices, func(a, c *corev1.EndpointSlice) int {
		return compare(a.GetMetadata().GetName(), c.GetMetadata().GetName())
	})
	b.common()
	for _, port := range b.spec.GetPorts() {
		b.port(port)
	}
	b.healthCheck()
	b.finish()
	return b.res
}

func headless(s *corev1.ServiceSpec) bool {
	return s.GetClusterIp() == "None" || slices.Contains(s.GetClusterIps(), "None")
}

type builder struct {
	facts  *Facts
	svc    *corev1.Service
	spec   *corev1.ServiceSpec
	slices []*corev1.EndpointSlice

	attrs Attributes // what all servers of the service share
	taken map[Key]bool
	res   Result
}

func (b *builder) report(format string, args ...any) {
	if msg := fmt.Sprintf(format, args...); !slices.Contains(b.res.Problems, msg) {
		b.res.Problems = append(b.res.Problems, msg)
	}
}

// common fills in what does not depend on the port.
func (b *builder) common() {
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
		b.attrs.Affinity = defaultAffinity
		if s := b.spec.GetSessionAffinityConfig().GetClientIp().GetTimeoutSeconds(); s > 0 {
			b.attrs.Affinity = time.Duration(s) * time.Second
		}
	}
}

// flagsOf understands the flags of a service; hashing falls back to another
// backend unless the service gives a list of flags without it.
func flagsOf(names []string, s Scheduler) Flags {
	if s != SourceHash && s != Maglev {
		return 0
	}
	if len(names) == 0 {
		return HashFallback
	}
	var f Flags
	for _, name := range names {
		switch name {
		case "sh-fallback", "mh-fallback":
			f |= HashFallback
		case "sh-port", "mh-port":
			f |= HashPort
		}
	}
	return f
}

// port plans one port of the service, in both families.
func (b *builder) port(port *corev1.ServicePort) {
	if n := port.GetPort(); n < 1 || n > 65535 {
		b.report("port %q is %d, which is no port", port.GetName(), n)
		return
	}
	for _, v6 := range []bool{false, true} {
		addrs := b.frontends(port, v6)
		if len(addrs) == 0 {
			continue
		}
		b.family(port, addrs, candidates(b.slices, port, v6, b.report))
	}
}

// exposed is an address and port that the service is reached at.
type exposed struct {
	addr     netip.AddrPort
	exposure Exposure
}

// frontends lists where one port of the service is reached in one family.
func (b *builder) frontends(port *corev1.ServicePort, v6 bool) []exposed {
	var out []exposed
	add := func(text string, e Exposure) {
		addr, err := netip.ParseAddr(strings.TrimSpace(text))
		if err != nil || addr.Zone() != "" || addr.IsUnspecified() || addr.Is4In6() {
			b.report("%s %q is no address to serve", e, text)
			return
		}
		if addr.Is6() == v6 {
			out = append(out, exposed{netip.AddrPortFrom(addr, uint16(port.GetPort())), e})
		}
	}
	for _, ip := range clusterIPs(b.spec) {
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
				out = append(out, exposed{netip.AddrPortFrom(addr, uint16(n)), NodePort})
			}
		}
	}
	return out
}

func clusterIPs(spec *corev1.ServiceSpec) []string {
	if ips := spec.GetClusterIps(); len(ips) > 0 {
		return ips
	}
	if ip := spec.GetClusterIp(); ip != "" {
		return []string{ip}
	}
	return nil
}

func hasNodePorts(spec *corev1.ServiceSpec) bool {
	t := spec.GetType()
	return t == corev1.ServiceType_SERVICE_TYPE_NODE_PORT || t == corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER
}

// family makes the servers of one port in one family.
func (b *builder) family(port *corev1.ServicePort, addrs []exposed, all []Candidate) {
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

// addLocal makes the two servers of a frontend under external policy Local:
// clients from outside reach local backends, clients inside reach all. Backends
// see the addresses of both; only the node itself is hidden, since the address
// that its packets come from is the frontend's.
func (b *builder) addLocal(key Key, attrs Attributes, cluster, local pool) {
	b.restrict(&attrs, exposed{key.Addr, attrs.Exposure})
	inside := attrs
	inside.Masquerade = MasqueradeOutside
	if len(cluster.reals) > 0 {
		attrs.WithoutBackends = Drop // another node has some
	}
	key.Audience = Internal
	b.add(key, inside, cluster)
	key.Audience = External
	b.add(key, attrs, local)
}

// add makes a server unless the service has it already.
func (b *builder) add(key Key, attrs Attributes, p pool) {
	anyone, internal := key, key
	anyone.Audience, internal.Audience = Anyone, Internal
	if b.taken[key] || b.taken[anyone] || key.Audience == Anyone && b.taken[internal] {
		return
	}
	b.taken[key] = true
	b.res.Servers = append(b.res.Servers, &VirtualServer{Key: key, Attributes: attrs, Reals: p.reals})
	b.res.Choices = append(b.res.Choices, p.choices)
}

// finish orders servers, and choices with them.
func (b *builder) finish() {
	order := make([]int, len(b.res.Servers))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return b.res.Servers[i].Key.Compare(b.res.Servers[j].Key) })
	servers, choices := make([]*VirtualServer, len(order)), make([][]Choice, len(order))
	for to, from := range order {
		servers[to], choices[to] = b.res.Servers[from], b.res.Choices[from]
	}
	b.res.Servers, b.res.Choices = servers, choices
}
