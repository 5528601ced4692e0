package registry_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry"
	"portolan.dev/registry/program"
	"portolan.dev/services/access"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
)

// guarded is a registry that accepts mutual TLS only, with an allocator that does the same.
type guarded struct {
	t      *testing.T
	change func(*app.Host)
	certs  *kittest.Certificates
	*installation
	addr string
}

func guard(t *testing.T, set ...func(*registry.Config)) *guarded {
	t.Helper()
	return guardWith(t, func(*app.Host) {}, set...)
}

// guardWith is guard with a change of the registry's host.
func guardWith(t *testing.T, change func(*app.Host), set ...func(*registry.Config)) *guarded {
	t.Helper()
	g := &guarded{t: t, change: change, certs: kittest.NewCertificates(t), installation: install(t, set...)}
	host := kittest.Host(t, g.network, "")
	server := rpc.NewServer(rpc.ServerOptions{Log: host.Log, Metrics: host.Metrics, Health: host.Health, Identity: g.certs.Source("allocator"), Authorizer: access.Methods()})
	g.allocator.Register(server)
	lis, err := g.network.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	kittest.Run(t, "guarded allocator", func(ctx context.Context) error { return server.Serve(ctx, lis) })
	g.config.Allocator = lis.Addr().String()
	g.addr = g.replica()
	return g
}

// replica starts a registry and returns its address.
func (g *guarded) replica() (addr string) {
	g.t.Helper()
	host := kittest.Host(g.t, g.network, g.nats)
	host.Identity = g.certs.Source("registry")
	g.change(&host)
	d, err := program.New(g.ctx, g.config, host)
	if err != nil {
		g.t.Fatal(err)
	}
	kittest.Run(g.t, "guarded registry", d.Run)
	return d.Addr().String()
}

// as connects with the certificate of the given role.
func (g *guarded) as(who string) *grpc.ClientConn { return g.dial(g.addr, who) }

func (g *guarded) dial(addr, who string) *grpc.ClientConn {
	g.t.Helper()
	conn, err := g.network.Dial(addr, g.certs.Source(who).DialOption(identity.Registry))
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { conn.Close() })
	return conn
}

// refused fails the test unless a write was refused with a reason in one line.
func refused(t *testing.T, what string, err error, want string) {
	t.Helper()
	text := status.Convert(err).Message()
	if status.Code(err) != codes.PermissionDenied || !strings.Contains(text, want) || strings.Contains(text, "\n") {
		t.Errorf("%s: %v\nwant %q", what, err, want)
	}
}

func accepted(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

func condition(kind string, s corev1.ConditionStatus) *corev1.Condition {
	return &corev1.Condition{Type: kind, Status: s}
}

const (
	yes = corev1.ConditionStatus_CONDITION_STATUS_TRUE
	no  = corev1.ConditionStatus_CONDITION_STATUS_FALSE
)

// podOn creates a pod that runs on a node.
func (g *guarded) podOn(operator *grpc.ClientConn, name, node string) *corev1.Pod {
	g.t.Helper()
	pods := registryv1.NewPodServiceClient(operator)
	pod, _ := samples()["Pod"].(*corev1.Pod)
	pod.Metadata.Name, pod.Spec.NodeName = name, node
	created, err := pods.CreatePod(within(g.t), &registryv1.CreatePodRequest{Pod: pod})
	if err != nil {
		g.t.Fatal(err)
	}
	with := created.GetPod()
	with.Status = &corev1.PodStatus{Phase: corev1.PodPhase_POD_PHASE_RUNNING, PodIp: "192.0.2.7", Conditions: []*corev1.Condition{condition("Initialized", yes), condition("Ready", no)}}
	updated, err := pods.UpdatePodStatus(within(g.t), &registryv1.UpdatePodStatusRequest{Pod: with})
	if err != nil {
		g.t.Fatal(err)
	}
	return updated.GetPod()
}

// TestAgentsWriteWhatIsTheirs checks that an agent may write its Node, the readiness of its pods
// and Events in its name, and nothing else.
func TestAgentsWriteWhatIsTheirs(t *testing.T) {
	g := guard(t)
	operator, agent := g.as("operator"), g.as("nodeagent/n1")
	nodes, pods, events := registryv1.NewNodeServiceClient(agent), registryv1.NewPodServiceClient(agent), registryv1.NewEventServiceClient(agent)
	ctx := within(t)
	node := func(name string) *corev1.Node { return &corev1.Node{Metadata: &corev1.ObjectMeta{Name: name}} }

	_, err := nodes.CreateNode(ctx, &registryv1.CreateNodeRequest{Node: node("n1")})
	accepted(t, "its own Node", err)
	_, err = nodes.CreateNode(ctx, &registryv1.CreateNodeRequest{Node: node("n2")})
	refused(t, "another Node", err, `role nodeagent (spiffe://portolan/nodeagent/n1) may not write this Node "n2": an agent writes its own Node only; the agent of n2 needs a certificate of nodeagent/n2`)
	_, err = nodes.CreateNode(ctx, &registryv1.CreateNodeRequest{Node: &corev1.Node{Metadata: &corev1.ObjectMeta{GenerateName: "n"}}})
	refused(t, "any Node", err, "an agent writes its own Node only")
	_, err = registryv1.NewNodeServiceClient(operator).CreateNode(ctx, &registryv1.CreateNodeRequest{Node: node("n2")})
	accepted(t, "an operator's Node", err)
	up := func(name string) *corev1.Node {
		n := node(name)
		n.Status = &corev1.NodeStatus{ProxyMode: "ipvs", Conditions: []*corev1.Condition{condition("Ready", yes)}}
		return n
	}
	_, err = nodes.UpdateNodeStatus(ctx, &registryv1.UpdateNodeStatusRequest{Node: up("n1")})
	accepted(t, "status of its Node", err)
	_, err = nodes.UpdateNodeStatus(ctx, &registryv1.UpdateNodeStatusRequest{Node: up("n2")})
	refused(t, "status of another Node", err, "an agent writes its own Node only")

	mine, theirs := g.podOn(operator, "mine", "n1"), g.podOn(operator, "theirs", "n2")
	write := func(pod *corev1.Pod, change func(*corev1.Pod)) error {
		changed := pod.CloneVT()
		changed.Metadata.ResourceVersion = 0
		change(changed)
		_, err := pods.UpdatePodStatus(ctx, &registryv1.UpdatePodStatusRequest{Pod: changed})
		return err
	}
	ready := func(p *corev1.Pod) {
		p.Status.Conditions = []*corev1.Condition{condition("Initialized", yes), condition("Ready", yes), condition("ContainersReady", yes)}
	}
	accepted(t, "readiness of its pod", write(mine, ready))
	refused(t, "readiness of another node's pod", write(theirs, ready), `Pod "default/theirs": the pod is on node "n2"`)
	refused(t, "a pod that claims to be its own", write(theirs, func(p *corev1.Pod) { ready(p); p.Spec.NodeName = "n1" }), `the pod is on node "n2"`)
	const only = `only the conditions ["Ready" "ContainersReady"]`
	refused(t, "the address of its pod", write(mine, func(p *corev1.Pod) { p.Status.PodIp, p.Status.PodIps = "192.0.2.9", nil }), only)
	refused(t, "the phase of its pod", write(mine, func(p *corev1.Pod) { p.Status.Phase = corev1.PodPhase_POD_PHASE_FAILED }), only)
	refused(t, "another condition", write(mine, func(p *corev1.Pod) { p.Status.Conditions = append(p.Status.Conditions, condition("Scheduled", yes)) }), only)
	refused(t, "a condition less", write(mine, func(p *corev1.Pod) { p.Status.Conditions = nil }), only)

	event := func(component, instance string) error {
		e, _ := proto.Clone(samples()["Event"]).(*corev1.Event)
		e.Metadata = &corev1.ObjectMeta{GenerateName: "e-"}
		e.ReportingComponent, e.ReportingInstance = component, instance
		_, err := events.CreateEvent(ctx, &registryv1.CreateEventRequest{Event: e})
		return err
	}
	for range 2 { // the second event is counted in the first
		accepted(t, "an Event", event("nodeagent", "n1"))
	}
	refused(t, "an Event of another agent", event("nodeagent", "n2"), `in the writer's own name: reporting_component "nodeagent", reporting_instance "n1"`)
	refused(t, "an Event of the controller", event("endpointctl", "n1"), "in the writer's own name")
}

// TestControllersWriteWhatIsTheirs checks that a controller cannot change objects that others have
// created.
func TestControllersWriteWhatIsTheirs(t *testing.T) {
	g := guard(t)
	ctx := within(t)
	operator, controller := g.as("operator"), g.as("endpointctl")
	slices, nodes := registryv1.NewEndpointSliceServiceClient(controller), registryv1.NewNodeServiceClient(controller)
	slice := func(name, manager string) *corev1.EndpointSlice {
		s, _ := samples()["EndpointSlice"].(*corev1.EndpointSlice)
		s.Metadata = &corev1.ObjectMeta{Name: name, Labels: map[string]string{"endpointslice.kubernetes.io/managed-by": manager}}
		return s
	}
	const ours = "endpointslice-controller.k8s.io"
	_, err := slices.CreateEndpointSlice(ctx, &registryv1.CreateEndpointSliceRequest{EndpointSlice: slice("ours", ours)})
	accepted(t, "its own slice", err)
	_, err = slices.CreateEndpointSlice(ctx, &registryv1.CreateEndpointSliceRequest{EndpointSlice: slice("odd", "me")})
	refused(t, "another's slice", err, "is its own only")
	_, err = registryv1.NewEndpointSliceServiceClient(operator).CreateEndpointSlice(ctx, &registryv1.CreateEndpointSliceRequest{EndpointSlice: slice("theirs", "people")})
	accepted(t, "an operator's slice", err)
	_, err = slices.UpdateEndpointSlice(ctx, &registryv1.UpdateEndpointSliceRequest{EndpointSlice: slice("theirs", ours)})
	refused(t, "taking over a slice", err, "is its own only")
	_, err = slices.UpdateEndpointSlice(ctx, &registryv1.UpdateEndpointSliceRequest{EndpointSlice: slice("ours", "people")})
	refused(t, "giving away a slice", err, "is its own only")
	_, err = slices.DeleteEndpointSlice(ctx, &registryv1.DeleteEndpointSliceRequest{Namespace: "default", Name: "theirs"})
	refused(t, "deleting a slice", err, "is its own only")
	_, err = slices.DeleteEndpointSlice(ctx, &registryv1.DeleteEndpointSliceRequest{Namespace: "default", Name: "ours"})
	accepted(t, "deleting its own slice", err)

	_, err = registryv1.NewNodeServiceClient(operator).CreateNode(ctx, &registryv1.CreateNodeRequest{Node: &corev1.Node{Metadata: &corev1.ObjectMeta{Name: "n1"}}})
	accepted(t, "an operator's Node", err)
	status := func(change func(*corev1.NodeStatus)) error {
		n := &corev1.Node{Metadata: &corev1.ObjectMeta{Name: "n1"}, Status: &corev1.NodeStatus{}}
		change(n.Status)
		_, err := nodes.UpdateNodeStatus(ctx, &registryv1.UpdateNodeStatusRequest{Node: n})
		return err
	}
	accepted(t, "readiness of a node", status(func(s *corev1.NodeStatus) { s.Conditions = []*corev1.Condition{condition("Ready", no)} }))
	refused(t, "address of a node", status(func(s *corev1.NodeStatus) {
		s.Addresses = []*corev1.NodeAddress{{Type: "InternalIP", Address: "192.0.2.1"}}
	}), `only the conditions ["Ready"]`)

	for who, component := range map[string]string{"endpointctl": "endpointctl", "allocator": "allocator"} {
		events := registryv1.NewEventServiceClient(g.as(who))
		for _, claimed := range []string{component, "nodeagent"} {
			e, _ := samples()["Event"].(*corev1.Event)
			e.Metadata = &corev1.ObjectMeta{GenerateName: "e-"}
			e.ReportingComponent = claimed
			_, err := events.CreateEvent(ctx, &registryv1.CreateEventRequest{Event: e})
			if claimed == component {
				accepted(t, who+"'s Event", err)
				continue
			}
			refused(t, who+"'s false Event", err, "in the writer's own name")
		}
	}
}

// TestTheAllocatorEndsReserves checks that the allocator deletes the Leases of reserves and no other
// Leases.
func TestTheAllocatorEndsReserves(t *testing.T) {
	g := guard(t)
	ctx := within(t)
	operator, allocator := registryv1.NewLeaseServiceClient(g.as("operator")), registryv1.NewLeaseServiceClient(g.as("allocator"))
	shop := &registryv1.CreateNamespaceRequest{Namespace: &corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: "shop"}}}
	_, err := registryv1.NewNamespaceServiceClient(g.as("operator")).CreateNamespace(ctx, shop)
	accepted(t, "a namespace", err)
	end := func(namespace, name string) error {
		_, err := operator.CreateLease(ctx, &registryv1.CreateLeaseRequest{Lease: &corev1.Lease{Metadata: &corev1.ObjectMeta{Namespace: namespace, Name: name}}})
		accepted(t, "an operator's Lease", err)
		_, err = allocator.DeleteLease(ctx, &registryv1.DeleteLeaseRequest{Namespace: namespace, Name: name})
		return err
	}
	accepted(t, "the Lease of a reserve", end("default", "portolan-reserve-1"))
	const only = "the allocator deletes the Leases default/portolan-reserve-… of registries only"
	refused(t, "the controller's Lease", end("default", "endpointctl"), only)
	refused(t, "a Lease of that name elsewhere", end("shop", "portolan-reserve-1"), only)
}

// TestGuardedRegistryAllocates checks that the allocator accepts the registry's certificate.
func TestGuardedRegistryAllocates(t *testing.T) {
	g := guard(t)
	created, err := registryv1.NewServiceServiceClient(g.as("operator")).CreateService(within(t), &registryv1.CreateServiceRequest{Service: web("web")})
	if err != nil || created.GetService().GetSpec().GetClusterIp() == "" {
		t.Errorf("%v, %v", created, err)
	}
	_, err = registryv1.NewServiceServiceClient(g.as("viewer")).DeleteService(within(t), &registryv1.DeleteServiceRequest{Namespace: "default", Name: "web"})
	refused(t, "a viewer", err, "role viewer (spiffe://portolan/viewer) may not call /portolan.registry.v1.ServiceService/DeleteService: use a certificate of the role operator")
}
