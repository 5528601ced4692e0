package nemesis

import (
	"fmt"
	"net/netip"
	"time"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/faults/clients"
	"portolan.dev/portolan/e2e/churn/model"
	"portolan.dev/portolan/e2e/churn/workload"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/object"
)

// The number of clients and the pauses between their calls. With these values, the clients leave
// enough time of two processors for the daemons.
const (
	actors  = 6
	writers = 4
	// writePause is the mean pause between two calls of a writer or an actor.
	writePause = 30 * time.Millisecond
	// probePause is the pause between two DNS queries of a client, two attempts to connect, or two
	// uses of a connection.
	probePause = 100 * time.Millisecond
	// callTimeout is the timeout of a client's call.
	callTimeout = 3 * time.Second
)

// The service that clients connect to. It does not change during a run.
const (
	steadyNamespace = "steady"
	steadyName      = "web"
	steadyIP        = "10.96.0.5"
	steadyPort      = 80
	steadyNodePort  = 32000
)

// podNodes are the nodes of the actors' pods. They have no agents, because an agent would report
// the readiness of the pods, which the actors do.
var podNodes = []string{"hand-made-1", "hand-made-2"}

// createObjects creates the objects that the clients need. It waits until all daemons have them,
// because the checkers assume that the initial objects have always existed.
func (r *run) createObjects() {
	r.Helper()
	var all []object.Object
	namespaces := []string{steadyNamespace}
	for _, a := range r.actors {
		namespaces = append(namespaces, a.Namespace())
	}
	for _, name := range namespaces {
		all = append(all, &corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: name}})
	}
	for _, name := range podNodes {
		all = append(all, &corev1.Node{Metadata: &corev1.ObjectMeta{Name: name}})
	}
	for _, o := range all {
		r.apply(o)
	}
	world := model.New()
	for _, o := range steadyObjects() {
		world.Put(r.apply(o))
	}
	began := time.Now()
	for _, c := range r.daemonCheckers(false) {
		if _, ok := r.awaitComponent(c, began, func() (*model.World, error) { return world, nil }); !ok {
			r.Fatalf("before the first fault: %s was not up to date within %s", c.Name(), recoveryTimeout)
		}
	}
}

// apply stores an object and returns it as stored.
func (r *run) apply(o object.Object) object.Object {
	r.Helper()
	answer, err := registryv1.NewApplyServiceClient(r.registries[0]).Apply(r.Context(), &registryv1.ApplyRequest{Object: object.Wrap(o)})
	if err != nil {
		r.Fatalf("%s: %v", object.KeyOf(o), err)
	}
	return object.Unwrap(answer.GetObject())
}

// steadyObjects returns the service that clients connect to, and its EndpointSlice.
func steadyObjects() []object.Object {
	meta := func() *corev1.ObjectMeta { return &corev1.ObjectMeta{Namespace: steadyNamespace, Name: steadyName} }
	name, number, ready := "http", workload.Ports[0], true
	conditions := &corev1.EndpointConditions{Ready: &ready}
	slice := &corev1.EndpointSlice{
		Metadata: meta(), AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4,
		Ports: []*corev1.EndpointPort{{Name: &name, Port: &number}},
		Endpoints: []*corev1.Endpoint{
			{Addresses: []string{"10.244.250.1"}, Conditions: conditions}, {Addresses: []string{"10.244.250.2"}, Conditions: conditions},
		},
	}
	slice.Metadata.Labels = map[string]string{object.LabelServiceName: steadyName}
	return []object.Object{slice, &corev1.Service{Metadata: meta(), Spec: &corev1.ServiceSpec{
		Type: corev1.ServiceType_SERVICE_TYPE_NODE_PORT, ClusterIp: steadyIP, ClusterIps: []string{steadyIP},
		Ports: []*corev1.ServicePort{{Name: name, Port: steadyPort, NodePort: steadyNodePort}},
	}}}
}

// startFleet starts the clients of a round. They connect from the machine "clients", which faults
// can cut off, except for the readers of the log, which connect from the hub.
func (r *run) startFleet() (err error) {
	from := clients.DialIn(r.Clients.Namespace.Do)
	r.fleet, err = clients.Start(r.Context(), clients.Config{
		Seed: r.seed + uint64(r.number), RunID: fmt.Sprintf("round-%d-", r.number),
		Registries: r.Registries(), NATS: r.NATS(), Allocator: r.Allocator(), Identity: r.Identity, Dial: from, LogDial: clients.DialIn(r.Network.Hub.Do),
		NameServers: []string{r.Resolver("dnssvc-0").String(), r.Resolver("dnssvc-1").String()}, Names: resolvedNames(),
		Routes: r.routes(from), Actors: r.actors, Balancers: balancerAddresses(), Writers: writers, ThinkTime: writePause, Interval: probePause, CallTimeout: callTimeout,
	}, r.recorder)
	return err
}

// routes returns the routes to the steady service: through its virtual IP on each node, and through
// the node port of each node.
func (r *run) routes(from clients.Dial) []clients.Route {
	var all []clients.Route
	for _, n := range r.Nodes {
		all = append(all,
			clients.Route{From: n.Name, Dial: clients.DialIn(n.Namespace.Do), To: netip.AddrPortFrom(netip.MustParseAddr(steadyIP), steadyPort)},
			clients.Route{From: r.Clients.Name, Dial: from, To: netip.AddrPortFrom(n.Addresses[0], steadyNodePort)})
	}
	return all
}

// balancerAddresses returns the load-balancer addresses that clients request.
func balancerAddresses() []string {
	var all []string
	addr := labtest.Balanced[0].Addr()
	for range 3 {
		addr = addr.Next()
		all = append(all, addr.String())
	}
	return all
}

// resolvedNames returns the DNS names that clients resolve.
func resolvedNames() []string {
	all := []string{fmt.Sprintf("%s.%s.svc.%s", steadyName, steadyNamespace, model.Zone)}
	for _, name := range clients.Services {
		all = append(all, fmt.Sprintf("%s.%s.svc.%s", name, clients.Namespace, model.Zone))
	}
	return all
}
