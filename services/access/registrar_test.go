package access_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/access"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/object"
)

// limitsOf returns the limits of an identity.
func limitsOf(t *testing.T, path string) (access.WriteLimit, access.ReadLimit) {
	t.Helper()
	id, err := identity.ParsePath(identity.DefaultTrustDomain, path)
	if err != nil {
		t.Fatal(err)
	}
	ctx := identity.Represent(t.Context(), id)
	return access.WriteLimitOf(ctx), access.ReadLimitOf(ctx)
}

// signed returns the metadata of an object with the annotation that names its creator.
func signed(namespace, name, owner string) *corev1.ObjectMeta {
	return &corev1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{object.AnnotationWorkload: owner}}
}

func podOf(namespace, node, owner string) *corev1.Pod {
	return &corev1.Pod{Metadata: signed(namespace, "web", owner), Spec: &corev1.PodSpec{NodeName: node}}
}

func serviceOf(owner string, spec *corev1.ServiceSpec) *corev1.Service {
	return &corev1.Service{Metadata: signed("shop", "web", owner), Spec: spec}
}

// write is a write of a registrar.
type write struct {
	who          string // path of the registrar's identity
	updated, old object.Object
	reason       string // a part of the reason for which the write is refused; "": it is allowed
}

// TestRegistrarWrites tries the writes of a registrar of all namespaces and of one.
func TestRegistrarWrites(t *testing.T) {
	const all, bound = "registrar/n1", "registrar/n1/shop"
	namespace := func(owner string, change func(*corev1.Namespace)) *corev1.Namespace {
		n := &corev1.Namespace{Metadata: signed("", "shop", owner)}
		change(n)
		return n
	}
	asItIs := func(*corev1.Namespace) {}
	event := func(component, instance string) *corev1.Event {
		return &corev1.Event{Metadata: &corev1.ObjectMeta{Namespace: "shop"}, ReportingComponent: component, ReportingInstance: instance}
	}
	for name, w := range map[string]write{
		"a pod":                          {all, podOf("shop", "n1", all), nil, ""},
		"a pod's status":                 {all, podOf("shop", "n1", all), podOf("shop", "n1", all), ""},
		"a pod's deletion":               {all, nil, podOf("shop", "n1", all), ""},
		"a pod of its namespace":         {bound, podOf("shop", "n1", bound), nil, ""},
		"a pod of another namespace":     {bound, podOf("other", "n1", bound), nil, `bound to the namespace "shop"`},
		"a pod of no namespace":          {bound, podOf("", "n1", bound), nil, `bound to the namespace "shop"`},
		"a pod of another node":          {all, podOf("shop", "n2", all), nil, `this registrar is bound to node "n1"`},
		"a pod of a workload":            {all, podOf("shop", "n1", "workload/n1"), nil, "annotation"},
		"a pod of the node's other one":  {bound, podOf("shop", "n1", all), nil, "annotation"},
		"an operator's pod as its own":   {all, podOf("shop", "n1", all), podOf("shop", "n1", ""), "annotation"},
		"its pod as another one's":       {all, podOf("shop", "n1", bound), podOf("shop", "n1", all), "annotation"},
		"the deletion of others' pods":   {all, nil, podOf("shop", "n1", ""), "annotation"},
		"a service":                      {all, serviceOf(all, &corev1.ServiceSpec{}), nil, ""},
		"a service of its namespace":     {bound, serviceOf(bound, &corev1.ServiceSpec{}), nil, ""},
		"a service of another namespace": {"registrar/n1/other", serviceOf("registrar/n1/other", &corev1.ServiceSpec{}), nil, `bound to the namespace "other"`},
		"a service of nobody":            {all, serviceOf("", &corev1.ServiceSpec{}), nil, "annotation"},
		"a service with a class": {all, &corev1.Service{Metadata: &corev1.ObjectMeta{Namespace: "shop", Annotations: map[string]string{
			object.AnnotationWorkload: all, object.AnnotationBalancerPool: "public",
		}}}, nil, "and no other"},
		"a service that cannot be deleted": {all, &corev1.Service{Metadata: &corev1.ObjectMeta{
			Namespace: "shop", Annotations: map[string]string{object.AnnotationWorkload: all}, Finalizers: []string{object.FinalizerLoadBalancer},
		}}, nil, "metadata.finalizers"},
		"a service's status":     {all, &corev1.Service{Metadata: signed("shop", "web", all), Status: &corev1.ServiceStatus{LoadBalancer: &corev1.LoadBalancerStatus{Ingress: []*corev1.LoadBalancerIngress{{Ip: "192.0.2.1"}}}}}, nil, "status"},
		"a service's change":     {all, serviceOf(all, nil), serviceOf(all, nil), "changes and deletes none"},
		"a service's deletion":   {all, nil, serviceOf(all, nil), "changes and deletes none"},
		"a namespace":            {all, namespace(all, asItIs), nil, ""},
		"a namespace, bound":     {bound, namespace(bound, asItIs), nil, "an operator creates namespaces"},
		"a namespace of nobody":  {all, namespace("", asItIs), nil, "annotation"},
		"a namespace's labels":   {all, namespace(all, func(n *corev1.Namespace) { n.Metadata.Labels = map[string]string{"a": "b"} }), nil, "a name only"},
		"a namespace's spec":     {all, namespace(all, func(n *corev1.Namespace) { n.Spec = &corev1.NamespaceSpec{Finalizers: []string{"a/b"}} }), nil, "a name only"},
		"a namespace's owner":    {all, namespace(all, func(n *corev1.Namespace) { n.Metadata.OwnerReferences = []*corev1.OwnerReference{{Uid: "1"}} }), nil, "metadata.ownerReferences"},
		"a namespace's change":   {all, namespace(all, asItIs), namespace(all, asItIs), "changes and deletes none"},
		"a namespace's deletion": {all, nil, namespace(all, asItIs), "changes and deletes none"},
		"an Event":               {all, event("registrar", "n1"), nil, ""},
		"an Event of another":    {all, event("registrar", "n2"), nil, "own name"},
		"an Event of the agent":  {all, event("nodeagent", "n1"), nil, "own name"},
		"an Event's deletion":    {all, nil, event("registrar", "n1"), "changes and deletes none"},
		"its Node":               {all, &corev1.Node{Metadata: &corev1.ObjectMeta{Name: "n1"}}, nil, "Events only"},
		"a slice":                {all, &corev1.EndpointSlice{Metadata: signed("shop", "web", all)}, nil, "Events only"},
		"a Secret":               {all, &corev1.Secret{Metadata: signed("shop", "web", all)}, nil, "Events only"},
		"a Revocation":           {all, nil, &corev1.Revocation{Metadata: signed("", "a", all)}, "Events only"},
	} {
		may, _ := limitsOf(t, w.who)
		err := may(w.updated, w.old)
		if w.reason == "" && err != nil || w.reason != "" && (err == nil || !strings.Contains(err.Error(), w.reason)) {
			t.Errorf("%s as %s: %v, want %q", name, w.who, err, w.reason)
		}
	}
}

// TestRegistrarsServicesStayInside sets each field of a service's spec, and its ports, alone. The test
// fails for a new field until the field is added to its table.
func TestRegistrarsServicesStayInside(t *testing.T) {
	const owner = "registrar/n1"
	may, _ := limitsOf(t, owner)
	one := int32(1)
	yes, class := true, "any"
	port := func(p *corev1.ServicePort) *corev1.ServiceSpec {
		return &corev1.ServiceSpec{Ports: []*corev1.ServicePort{p}}
	}
	allowed := []*corev1.ServiceSpec{
		{Selector: map[string]string{"a": "b"}}, {Type: corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP}, {ClusterIp: "None"}, {ClusterIps: []string{"None"}},
		{SessionAffinity: corev1.SessionAffinity_SESSION_AFFINITY_CLIENT_IP}, {SessionAffinityConfig: &corev1.SessionAffinityConfig{ClientIp: &corev1.ClientIPConfig{}}},
		{InternalTrafficPolicy: corev1.TrafficPolicy_TRAFFIC_POLICY_LOCAL}, {PublishNotReadyAddresses: true},
		{IpFamilies: []corev1.IPFamily{corev1.IPFamily_IP_FAMILY_IPV6}}, {IpFamilyPolicy: corev1.IPFamilyPolicy_IP_FAMILY_POLICY_PREFER_DUAL_STACK},
		{TrafficDistribution: corev1.TrafficDistribution_TRAFFIC_DISTRIBUTION_PREFER_CLOSE}, {Scheduler: corev1.Scheduler_SCHEDULER_LC},
		{SchedulerFlags: []string{"sh-port"}}, {DrainTimeoutSeconds: &one},
		port(&corev1.ServicePort{Name: "http"}), port(&corev1.ServicePort{Protocol: corev1.Protocol_PROTOCOL_UDP}), port(&corev1.ServicePort{AppProtocol: &class}),
		port(&corev1.ServicePort{Port: 80}), port(&corev1.ServicePort{TargetPort: &corev1.IntOrString{}}),
	}
	refused := map[string]*corev1.ServiceSpec{
		"spec.type": {Type: corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER}, "spec.clusterIP": {ClusterIp: "10.96.0.1"}, "spec.clusterIPs": {ClusterIps: []string{"None", "10.96.0.1"}},
		"spec.externalIPs": {ExternalIps: []string{"192.0.2.1"}}, "spec.externalName": {ExternalName: "a.example"},
		"spec.externalTrafficPolicy": {ExternalTrafficPolicy: corev1.TrafficPolicy_TRAFFIC_POLICY_CLUSTER},
		"spec.loadBalancerIP":        {LoadBalancerIp: "192.0.2.1"}, "spec.loadBalancerClass": {LoadBalancerClass: &class},
		"spec.loadBalancerSourceRanges": {LoadBalancerSourceRanges: []string{"192.0.2.0/24"}}, "spec.allocateLoadBalancerNodePorts": {AllocateLoadBalancerNodePorts: &yes},
		"spec.healthCheckNodePort": {HealthCheckNodePort: 30000}, "spec.ports[*].nodePort": port(&corev1.ServicePort{NodePort: 30000}),
	}
	tried := map[protoreflect.FullName]bool{}
	try := func(spec *corev1.ServiceSpec) error {
		note := func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
			tried[f.FullName()] = true
			return true
		}
		spec.ProtoReflect().Range(note)
		for _, p := range spec.GetPorts() {
			p.ProtoReflect().Range(note)
		}
		return may(serviceOf(owner, spec), nil)
	}
	for _, spec := range allowed {
		if err := try(spec); err != nil {
			t.Errorf("%v: %v", spec, err)
		}
	}
	for field, spec := range refused {
		if err := try(spec); err == nil || !strings.Contains(err.Error(), "leave "+field+" out") {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, kind := range []corev1.ServiceType{corev1.ServiceType_SERVICE_TYPE_NODE_PORT, corev1.ServiceType_SERVICE_TYPE_EXTERNAL_NAME} {
		if may(serviceOf(owner, &corev1.ServiceSpec{Type: kind}), nil) == nil {
			t.Errorf("a service of the type %s", kind)
		}
	}
	for _, message := range []proto.Message{&corev1.ServiceSpec{}, &corev1.ServicePort{}} {
		fields := message.ProtoReflect().Descriptor().Fields()
		for i := range fields.Len() {
			if name := fields.Get(i).FullName(); !tried[name] {
				t.Errorf("%s: may a registrar set it? This test does not try it", name)
			}
		}
	}
}

// TestRegistrarReads tries the reads of a registrar of all namespaces and of one.
func TestRegistrarReads(t *testing.T) {
	const all, bound = "registrar/n1", "registrar/n1/shop"
	named := func(name string) *corev1.ObjectMeta { return &corev1.ObjectMeta{Name: name} }
	in := func(namespace string) *corev1.ObjectMeta {
		return &corev1.ObjectMeta{Namespace: namespace, Name: "web"}
	}
	for name, r := range map[string]struct {
		object object.Object
		may    []string // of both
	}{
		"its pod":               {podOf("shop", "n1", all), []string{all}},
		"the bound one's pod":   {podOf("shop", "n1", bound), []string{bound}},
		"an operator's pod":     {podOf("shop", "n1", ""), nil},
		"a pod of another node": {podOf("shop", "n2", all), nil},
		"a service":             {&corev1.Service{Metadata: in("shop")}, []string{all, bound}},
		"another's service":     {&corev1.Service{Metadata: in("other")}, []string{all}},
		"a namespace":           {&corev1.Namespace{Metadata: named("shop")}, []string{all, bound}},
		"another namespace":     {&corev1.Namespace{Metadata: named("other")}, []string{all}},
		"its Node":              {&corev1.Node{Metadata: named("n1")}, []string{all, bound}},
		"another Node":          {&corev1.Node{Metadata: named("n2")}, nil},
		"a Revocation":          {&corev1.Revocation{Metadata: named("a")}, []string{all, bound}},
		"a slice":               {&corev1.EndpointSlice{Metadata: in("shop")}, nil},
		"Endpoints":             {&corev1.Endpoints{Metadata: in("shop")}, nil},
		"a Secret":              {&corev1.Secret{Metadata: in("shop")}, nil},
		"a certificate":         {&corev1.Secret{Metadata: in("shop"), Type: "kubernetes.io/tls"}, nil},
		"a Token":               {&corev1.Token{Metadata: named("a")}, nil},
		"a Lease":               {&corev1.Lease{Metadata: in("shop")}, nil},
		"an Event":              {&corev1.Event{Metadata: in("shop"), ReportingComponent: "registrar", ReportingInstance: "n1"}, nil},
	} {
		for _, who := range []string{all, bound} {
			_, reads := limitsOf(t, who)
			want := strings.Contains(" "+strings.Join(r.may, " ")+" ", " "+who+" ")
			if got := reads.Allows(r.object); got != want {
				t.Errorf("%s reads %s: %v", who, name, got)
			}
		}
	}
}
