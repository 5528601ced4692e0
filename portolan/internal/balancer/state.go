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
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// builtin is the class of the built-in provider.
const builtin = "portolan.dev/pool"

// State is the state of a service's load balancer.
type State struct {
	// Provider is the class of the provider that makes the load balancer, or of the one that the service
	// asks for; "": none yet.
	Provider  string
	Addresses []Address
	// Ensured reports whether the load balancer is as it should be. Otherwise Reason and Why tell what
	// it waits for, in one word and in a sentence.
	Ensured     bool
	Reason, Why string
	// Since is the time since which it is so, or not; zero: unknown.
	Since time.Time
	// Unannounced is the reason why nodes do not announce all addresses; "": they do, or need not.
	Unannounced string
	// AnnouncedSince is the time since which the same nodes announce, or not; zero: unknown.
	AnnouncedSince time.Time
}

// Address is an address or a name of a load balancer.
type Address struct {
	Text string
	// Pool is the pool that the address comes from; "": none, or unknown.
	Pool string
	// Node announces the address; "": none.
	Node string
	// ByNodes is whether nodes serve the address themselves.
	ByNodes bool
	// ByEdges is whether edges on nodes serve it.
	ByEdges bool
	// Errors are the ports that could not be set up, with the reasons.
	Errors []string
}

// Pools are the pools of load-balancer addresses. The zero value has none.
type Pools struct {
	names  []string
	ranges []netip.Prefix
}

// NewPools returns those of the allocator's pools that have load-balancer addresses.
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
	if announced.GetStatus() == corev1.ConditionStatus_CONDITION_STATUS_FALSE {
		s.Unannounced = cmp.Or(announced.GetMessage(), announced.GetReason())
	}
	nodes, edges := spec.Announcers(svc), spec.EdgeAddresses(svc)
	for _, ingress := range svc.GetStatus().GetLoadBalancer().GetIngress() {
		a := Address{Text: cmp.Or(ingress.GetIp(), ingress.GetHostname()), Node: nodes[ingress.GetIp()], Pool: pools.Of(ingress.GetIp())}
		a.ByNodes = ingress.GetIp() != "" && ingress.GetIpMode() != corev1.IPMode_IP_MODE_PROXY
		a.ByEdges = slices.ContainsFunc(edges, func(addr netip.Addr) bool { return addr.String() == ingress.GetIp() })
		for _, port := range ingress.GetPorts() {
			if port.GetError() != "" {
				a.Errors = append(a.Errors, fmt.Sprintf("port %d/%s: %s", port.GetPort(), spec.EnumName(port.GetProtocol()), port.GetError()))
			}
		}
		s.Addresses = append(s.Addresses, a)
	}
	return s
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
	if s.Unannounced != "" {
		add(s.AnnouncedSince, "Not all its addresses are announced: %s", s.Unannounced)
	}
	return all
}

// origin tells where an address comes from, and who serves it.
func (s State) origin(a Address) string {
	text := a.Text + " comes from the provider " + cmp.Or(s.Provider, builtin)
	if a.Pool != "" {
		text = fmt.Sprintf("%s comes from the pool %s of the provider %s", a.Text, a.Pool, cmp.Or(s.Provider, builtin))
	}
	switch {
	case a.ByNodes:
		return text + ", and the nodes serve it"
	case a.ByEdges:
		return text + ", and edges on the nodes serve it"
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
