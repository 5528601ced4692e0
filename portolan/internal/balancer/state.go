package balancer

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/balancer"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// State is the state of a service's load balancer.
type State struct {
	// Provider is the class of the provider that makes the load balancer. Before a provider has taken it,
	// it is the class that the service asks for; "": none.
	Provider  string
	Addresses []Address
	// Ensured reports whether the load balancer is as the service wants it. Otherwise Reason and Why are
	// the reason, in one word and in a sentence.
	Ensured     bool
	Reason, Why string
	// Since is the time at which Ensured changed last; zero: unknown.
	Since time.Time
	// Unannounced is the reason why nodes do not announce all addresses; "": they do, or need not.
	Unannounced string
	// Ignored are the settings that are not honoured, with the reasons.
	Ignored []string
	// AnnouncedSince is the time since which the same nodes announce the addresses, or none; zero: unknown.
	AnnouncedSince time.Time
}

// Address is an address or a name of a load balancer.
type Address struct {
	Text string
	// Pool is the pool that the address comes from; "": none, or unknown.
	Pool string
	// Node announces the address; "": none.
	Node string
	// By serves the address.
	By Server
	// Errors are the ports that could not be set up, with the reasons.
	Errors []string
}

// Server is the kind of the processes or machines that serve an address.
type Server int

// Servers.
const (
	ByProvider Server = iota // the provider's own load balancer, which passes the traffic to the nodes
	ByNodes
	ByEdges
)

// Pools are the pools of load-balancer addresses. The zero value has none.
type Pools struct {
	names  []string
	ranges []netip.Prefix
}

// NewPools selects the pools of load-balancer addresses from all pools of the allocator.
func NewPools(all []*allocatorv1.Pool) Pools {
	var pools Pools
	for _, p := range all {
		if addresses, err := netip.ParsePrefix(p.GetRange()); err == nil && p.GetUse() == allocatorv1.Use_USE_LOAD_BALANCER_IP {
			pools.names, pools.ranges = append(pools.names, p.GetName()), append(pools.ranges, addresses)
		}
	}
	return pools
}

// Of returns the pool of an address, or "" if it is of none.
func (p Pools) Of(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return ""
	}
	for i, addresses := range p.ranges {
		if addresses.Contains(ip) {
			return p.names[i]
		}
	}
	return ""
}

// Of returns the state of the load balancer of a service, which is of type LoadBalancer.
func Of(svc *corev1.Service, pools Pools) State {
	conditions := svc.GetStatus().GetConditions()
	made, announced := object.Condition(conditions, object.ConditionLoadBalancer), object.Condition(conditions, object.ConditionAnnounced)
	s := State{
		Provider: cmp.Or(svc.GetMetadata().GetAnnotations()[object.AnnotationBalancerProvider], svc.GetSpec().GetLoadBalancerClass()),
		Ensured:  made.GetStatus() == corev1.ConditionStatus_CONDITION_STATUS_TRUE,
		Reason:   made.GetReason(), Since: timeOf(made), AnnouncedSince: timeOf(announced),
	}
	if !s.Ensured {
		s.Reason = cmp.Or(s.Reason, "Unknown")
		s.Why = cmp.Or(made.GetMessage(), spec.PendingLoadBalancer(svc), "lbctl has not looked at it yet")
	}
	for _, p := range balancer.Ignored(svc) {
		s.Ignored = append(s.Ignored, p.Annotation+": "+p.Message)
	}
	if announced.GetStatus() == corev1.ConditionStatus_CONDITION_STATUS_FALSE {
		s.Unannounced = cmp.Or(announced.GetMessage(), announced.GetReason())
	}
	nodes := spec.Announcers(svc)
	for _, ingress := range svc.GetStatus().GetLoadBalancer().GetIngress() {
		a := Address{Text: cmp.Or(ingress.GetIp(), ingress.GetHostname()), Node: nodes[ingress.GetIp()], Pool: pools.Of(ingress.GetIp())}
		a.By = serverOf(svc, ingress)
		for _, port := range ingress.GetPorts() {
			if port.GetError() != "" {
				a.Errors = append(a.Errors, fmt.Sprintf("port %d/%s: %s", port.GetPort(), spec.EnumName(port.GetProtocol()), port.GetError()))
			}
		}
		s.Addresses = append(s.Addresses, a)
	}
	return s
}

// serverOf returns the server of an address of a service. An address that is not an IP, or that has the
// mode Proxy and is not of an edge, is served by the provider.
func serverOf(svc *corev1.Service, ingress *corev1.LoadBalancerIngress) Server {
	switch {
	case ingress.GetIp() == "":
		return ByProvider
	case ingress.GetIpMode() != corev1.IPMode_IP_MODE_PROXY:
		return ByNodes
	case balancer.ClassOf(svc) == balancer.ClassEdge:
		return ByEdges
	}
	return ByProvider
}

func timeOf(c *corev1.Condition) time.Time {
	if c.GetLastTransitionTime() == nil {
		return time.Time{}
	}
	return c.GetLastTransitionTime().AsTime()
}

// PoolNames returns the pools of the addresses, each once.
func (s State) PoolNames() []string {
	return s.distinct(func(a Address) string { return a.Pool })
}

// Nodes returns the nodes that announce addresses, each once.
func (s State) Nodes() []string {
	return s.distinct(func(a Address) string { return a.Node })
}

func (s State) distinct(of func(Address) string) []string {
	var all []string
	for _, a := range s.Addresses {
		if text := of(a); text != "" && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

// Sentences describes the state. since turns a time into words such as "5m".
func (s State) Sentences(since func(time.Time) string) []string {
	var all []string
	add := func(from time.Time, format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		if !from.IsZero() {
			text += " (since " + since(from) + ")"
		}
		all = append(all, text+".")
	}
	for _, a := range s.Addresses {
		add(time.Time{}, "%s", s.origin(a))
		if a.Node != "" {
			add(s.AnnouncedSince, "Node %s announces %s", a.Node, a.Text)
		}
		for _, problem := range a.Errors {
			add(time.Time{}, "It is not set up at %s for %s", a.Text, problem)
		}
	}
	switch {
	case !s.Ensured && len(s.Addresses) == 0:
		add(s.Since, "It has no external address yet: %s", s.Why)
	case !s.Ensured:
		add(s.Since, "It is not as the service wants it: %s", s.Why)
	}
	for _, ignored := range s.Ignored {
		add(time.Time{}, "A setting is not honoured: %s", ignored)
	}
	if s.Unannounced != "" {
		add(s.AnnouncedSince, "Not all its addresses are announced: %s", s.Unannounced)
	}
	return all
}

// origin returns a sentence with the provider, the pool and the server of an address.
func (s State) origin(a Address) string {
	text := a.Text + " comes from the provider " + cmp.Or(s.Provider, balancer.ClassPool)
	if a.Pool != "" {
		text = fmt.Sprintf("%s comes from the pool %s of the provider %s", a.Text, a.Pool, cmp.Or(s.Provider, balancer.ClassPool))
	}
	switch a.By {
	case ByNodes:
		return text + ", and the nodes serve it"
	case ByEdges:
		return text + ", and edges serve it"
	}
	return text + ", which passes the traffic to the nodes"
}

// Summary returns the state in one word, or the words of the ports that could not be set up.
func (s State) Summary() string {
	for _, a := range s.Addresses {
		if len(a.Errors) > 0 {
			return strings.Join(a.Errors, ", ")
		}
	}
	return s.Reason
}
