package view

import (
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// Kinds returns the kinds that the daemon follows.
func Kinds() []string { return []string{"Service", "Node", "EndpointSlice"} }

// Keeps reports whether the daemon needs an object of these kinds. A service that is no longer of type
// LoadBalancer is needed while it has lbctl's finalizer, because its load balancer must be deleted.
func Keeps(o object.Object) bool {
	svc, ok := o.(*corev1.Service)
	return !ok || spec.IsLoadBalancer(svc) || spec.HasBalancerFinalizer(svc)
}

// Trim removes the parts of a slice that the daemon does not need: all but the nodes and the
// conditions of its endpoints.
func Trim(o object.Object) {
	slice, ok := o.(*corev1.EndpointSlice)
	if !ok {
		return
	}
	meta := slice.GetMetadata()
	slice.Metadata = &corev1.ObjectMeta{
		Namespace: meta.GetNamespace(), Name: meta.GetName(), ResourceVersion: meta.GetResourceVersion(),
		Labels: map[string]string{object.LabelServiceName: meta.GetLabels()[object.LabelServiceName]},
	}
	slice.Ports = nil
	for i, endpoint := range slice.GetEndpoints() {
		slice.Endpoints[i] = &corev1.Endpoint{NodeName: endpoint.NodeName, Conditions: endpoint.GetConditions()}
	}
}

// View holds the objects. Make it with New.
type View struct {
	guard *guard.Guard

	mu       sync.Mutex
	services map[object.Name]*corev1.Service     // guarded by mu
	sharers  map[string]map[object.Name]struct{} // guarded by mu: services that share addresses, by owner
	nodes    map[string]*corev1.Node             // guarded by mu
	// slices are the slices of each service, by their names. Guarded by mu.
	slices map[object.Name]map[string]*corev1.EndpointSlice
}

// New returns an empty view, which applies objects under a guard.
func New(g *guard.Guard) *View {
	return &View{
		guard:    g,
		services: map[object.Name]*corev1.Service{}, sharers: map[string]map[object.Name]struct{}{}, nodes: map[string]*corev1.Node{},
		slices: map[object.Name]map[string]*corev1.EndpointSlice{},
	}
}

// Apply applies changes of the registry. It reports whether nodes have changed.
func (v *View) Apply(batch []changes.Change) (nodes bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	changes.Each(v.guard, batch, func(c *changes.Change) {
		switch c.Kind {
		case "Node":
			nodes = true
			v.applyNode(c)
		case "Service":
			v.applyService(c)
		case "EndpointSlice":
			v.applySlice(c)
		}
	})
	return nodes
}

func (v *View) applyNode(c *changes.Change) {
	if old, ok := c.Old.(*corev1.Node); ok {
		delete(v.nodes, old.GetMetadata().GetName())
	}
	if node, ok := c.New.(*corev1.Node); ok {
		v.nodes[node.GetMetadata().GetName()] = node
	}
}

func (v *View) applyService(c *changes.Change) {
	if old, ok := c.Old.(*corev1.Service); ok {
		name := object.NameOf(old)
		delete(v.services, name)
		v.unshare(spec.OwnerOfAddresses(old).UID, name)
	}
	svc, ok := c.New.(*corev1.Service)
	if !ok {
		return
	}
	v.services[object.NameOf(svc)] = svc
	if owner := spec.OwnerOfAddresses(svc); owner.Kind == spec.KindAddressShare {
		if v.sharers[owner.UID] == nil {
			v.sharers[owner.UID] = map[object.Name]struct{}{}
		}
		v.sharers[owner.UID][object.NameOf(svc)] = struct{}{}
	}
}

func (v *View) applySlice(c *changes.Change) {
	if old, ok := c.Old.(*corev1.EndpointSlice); ok {
		service := object.ServiceOf(old)
		delete(v.slices[service], old.GetMetadata().GetName())
		if len(v.slices[service]) == 0 {
			delete(v.slices, service)
		}
	}
	if slice, ok := c.New.(*corev1.EndpointSlice); ok {
		service := object.ServiceOf(slice)
		if v.slices[service] == nil {
			v.slices[service] = map[string]*corev1.EndpointSlice{}
		}
		v.slices[service][slice.GetMetadata().GetName()] = slice
	}
}

func (v *View) unshare(owner string, name object.Name) {
	delete(v.sharers[owner], name)
	if len(v.sharers[owner]) == 0 {
		delete(v.sharers, owner)
	}
}

// Service returns a service, or nil if it does not exist or neither has nor wants a load balancer.
func (v *View) Service(name object.Name) *corev1.Service {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.services[name]
}

// Services returns all services of the view, in any order.
func (v *View) Services() []*corev1.Service {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Collect(maps.Values(v.services))
}

// Sharers returns the services that share addresses under an owner, in any order.
func (v *View) Sharers(owner string) []*corev1.Service {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := make([]*corev1.Service, 0, len(v.sharers[owner]))
	for name := range v.sharers[owner] {
		all = append(all, v.services[name])
	}
	return all
}

// Slices returns the slices of a service, in any order.
func (v *View) Slices(service object.Name) []*corev1.EndpointSlice {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Collect(maps.Values(v.slices[service]))
}

// Nodes returns all nodes, in any order.
func (v *View) Nodes() []*corev1.Node {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Collect(maps.Values(v.nodes))
}

// EligibleNodes returns the nodes that may receive traffic from load balancers, ordered by name.
func (v *View) EligibleNodes() []*corev1.Node {
	v.mu.Lock()
	defer v.mu.Unlock()
	var all []*corev1.Node
	for _, node := range v.nodes {
		if spec.TakesBalancerTraffic(node) {
			all = append(all, node)
		}
	}
	slices.SortFunc(all, func(a, b *corev1.Node) int {
		return strings.Compare(a.GetMetadata().GetName(), b.GetMetadata().GetName())
	})
	return all
}
