package announce

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// Objects are the objects from which the wanted addresses follow.
type Objects struct {
	// Services are the services of the view. Services without load-balancer addresses are ignored.
	Services []*corev1.Service
	// Slices returns the EndpointSlices of a service. It is called for services with external traffic
	// policy Local only.
	Slices func(service object.Name) []*corev1.EndpointSlice
	Nodes  []*corev1.Node
	// Selector selects the nodes that may announce, by their labels. The zero value selects all.
	Selector spec.Selector
	// Guard catches panics of the work for one service, for which the addresses in Before stay wanted.
	Guard  *guard.Guard
	Before []Wanted
}

// stepAnnounce is the step that adds the addresses of a service.
const stepAnnounce = "announce"

// Build returns the addresses in the status of services of type LoadBalancer, with the nodes that
// may announce each of them, ordered by address. If several services share an address, a node must be
// allowed to announce it for each of them. External traffic policy Local is ignored for an address that
// edges serve, because an edge sends to backends on all nodes and knows the client's address.
func Build(o Objects) []Wanted {
	b := builder{Objects: o, all: eligibleNodes(o.Nodes, o.Selector), byAddress: map[netip.Addr]*Wanted{}}
	failed := map[object.Name]bool{}
	for _, svc := range o.Services {
		name := object.NameOf(svc)
		if err := o.Guard.Do(stepAnnounce, guard.Object{Kind: "Service", Namespace: name.Namespace, Name: name.Name}, func() error {
			b.add(svc)
			return nil
		}); err != nil {
			failed[name] = true
		}
	}
	b.keep(failed)
	o.Guard.Forget(stepAnnounce, func(o guard.Object) bool { return !failed[object.Name{Namespace: o.Namespace, Name: o.Name}] })
	byAddress := b.byAddress
	wanted := make([]Wanted, 0, len(byAddress))
	for _, w := range byAddress {
		slices.SortFunc(w.Services, func(a, b object.Name) int { return strings.Compare(a.String(), b.String()) })
		wanted = append(wanted, *w)
	}
	slices.SortFunc(wanted, func(a, b Wanted) int { return a.Address.Compare(b.Address) })
	return wanted
}

// builder collects the wanted addresses of services.
type builder struct {
	Objects
	all       map[string]bool // nodes that may announce for any service
	byAddress map[netip.Addr]*Wanted
}

// add adds the addresses of a service.
func (b *builder) add(svc *corev1.Service) {
	addrs, proxied := addressesOf(svc)
	if len(addrs) == 0 {
		return
	}
	nodes, policy := b.all, ""
	local := isLocal(svc) && !proxied
	if local {
		nodes = withEndpoints(b.all, b.Slices(object.NameOf(svc)))
		policy = "no ready endpoint of " + object.NameOf(svc).String() + ", whose external traffic policy is Local"
	}
	for _, addr := range addrs {
		w := b.byAddress[addr]
		if w == nil {
			b.byAddress[addr] = &Wanted{Address: addr, Services: []object.Name{object.NameOf(svc)}, Nodes: nodes, Policy: policy, Proxied: proxied}
			continue
		}
		w.Services = append(w.Services, object.NameOf(svc))
		w.Proxied = w.Proxied || proxied
		if local {
			w.Nodes, w.Policy = both(w.Nodes, nodes), policy
		}
	}
}

// keep adds the former addresses of services that could not be added, so that nodes continue to announce them.
func (b *builder) keep(failed map[object.Name]bool) {
	for i := range b.Before {
		w := b.Before[i]
		if b.byAddress[w.Address] == nil && slices.ContainsFunc(w.Services, func(name object.Name) bool { return failed[name] }) {
			b.byAddress[w.Address] = &w
		}
	}
}

// addressesOf returns the addresses of a service that are to be announced, and whether edges serve them.
// Addresses with ipMode Proxy belong to a load balancer elsewhere, unless edges serve them.
func addressesOf(svc *corev1.Service) (addrs []netip.Addr, proxied bool) {
	if !spec.IsLoadBalancer(svc) {
		return nil, false
	}
	if addrs = spec.EdgeAddresses(svc); len(addrs) > 0 {
		return addrs, true
	}
	for _, ingress := range svc.GetStatus().GetLoadBalancer().GetIngress() {
		addr, err := netip.ParseAddr(ingress.GetIp())
		if err != nil || ingress.GetIpMode() == corev1.IPMode_IP_MODE_PROXY || slices.Contains(addrs, addr) {
			continue
		}
		addrs = append(addrs, addr)
	}
	return addrs, false
}

func isLocal(svc *corev1.Service) bool {
	return svc.GetSpec().GetExternalTrafficPolicy() == corev1.TrafficPolicy_TRAFFIC_POLICY_LOCAL
}

// eligibleNodes returns the names of the nodes that may receive traffic of load balancers. It includes nodes
// that are not ready, because the agents report their readiness themselves, and earlier.
func eligibleNodes(nodes []*corev1.Node, selector spec.Selector) map[string]bool {
	names := map[string]bool{}
	for _, n := range nodes {
		if spec.TakesBalancerTraffic(n) && selector.Matches(n.GetMetadata().GetLabels()) {
			names[n.GetMetadata().GetName()] = true
		}
	}
	return names
}

// withEndpoints returns the nodes with a ready endpoint in the slices. If no endpoint is ready, it returns
// the nodes with endpoints that terminate and still serve, because the agents then send to these.
func withEndpoints(nodes map[string]bool, all []*corev1.EndpointSlice) map[string]bool {
	ready, serving := map[string]bool{}, map[string]bool{}
	for _, slice := range all {
		for _, endpoint := range slice.GetEndpoints() {
			node, conditions := endpoint.GetNodeName(), endpoint.GetConditions()
			switch {
			case !nodes[node]:
			case object.IsReadyEndpoint(endpoint):
				ready[node] = true
			case conditions.GetServing() && conditions.GetTerminating():
				serving[node] = true
			}
		}
	}
	if len(ready) == 0 {
		return serving
	}
	return ready
}

// both returns the names that are in both sets.
func both(a, b map[string]bool) map[string]bool {
	out := maps.Clone(a)
	maps.DeleteFunc(out, func(name string, _ bool) bool { return !b[name] })
	return out
}
