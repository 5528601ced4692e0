package spec_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kinds"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

var day = time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)

// example returns a valid object of a kind, as a client would send it.
func example(kind string) object.Object {
	meta := &corev1.ObjectMeta{Name: "web"}
	switch kind {
	case "Service":
		return onStored(web(ofType(nodePort)))
	case "Pod":
		return pod()
	case "Node":
		return &corev1.Node{Metadata: meta, Spec: &corev1.NodeSpec{PodCidr: "10.9.8.0/24"}}
	case "Namespace":
		return &corev1.Namespace{Metadata: meta}
	case "EndpointSlice":
		return slice()
	case "Endpoints":
		return &corev1.Endpoints{Metadata: meta, Subsets: []*corev1.EndpointSubset{{
			Addresses: []*corev1.EndpointAddress{{Ip: "1.2.3.4"}}, Ports: []*corev1.EndpointSubsetPort{{Port: 9376}},
		}}}
	case "Lease":
		return &corev1.Lease{Metadata: meta, Spec: &corev1.LeaseSpec{HolderIdentity: "a", LeaseDurationSeconds: 15}}
	case "Event":
		return &corev1.Event{Metadata: meta, Reason: "Listening", Regarding: &corev1.ObjectReference{Kind: "Service", Name: "web", Namespace: "default"}}
	case "Token":
		return &corev1.Token{Metadata: meta, Spec: &corev1.TokenSpec{Identity: "viewer/shop", Sha256: make([]byte, 32)}}
	case "Revocation":
		return &corev1.Revocation{Metadata: meta, Spec: &corev1.RevocationSpec{Identity: "nodeagent/n1", Reason: "stolen"}}
	}
	row, _ := kinds.Named(kind)
	o := row.New() // a kind without rules needs a name only
	object.MetaOf(o).Name = meta.Name
	return o
}

// onStored sets the allocated values of the example, so that an update without them changes
// nothing.
func onStored(svc *corev1.Service) *corev1.Service {
	svc.Spec.ClusterIp, svc.Spec.Ports[0].NodePort = "10.96.0.10", 30100
	return svc
}

func pod(changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		Metadata: &corev1.ObjectMeta{Name: "web"},
		Spec: &corev1.PodSpec{NodeName: "n1", Containers: []*corev1.Container{{
			Name: "c", Ports: []*corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
		}}},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

func slice(changes ...func(*corev1.EndpointSlice)) *corev1.EndpointSlice {
	s := &corev1.EndpointSlice{
		Metadata:    &corev1.ObjectMeta{Name: "web", Labels: map[string]string{object.LabelServiceName: "web"}},
		AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4,
		Ports:       []*corev1.EndpointPort{{Port: proto.Int32(9376)}},
		Endpoints:   []*corev1.Endpoint{{Addresses: []string{"10.4.5.6", "10.1.2.3"}}},
	}
	for _, change := range changes {
		change(s)
	}
	return s
}

func TestExamplesAreValid(t *testing.T) {
	for _, kind := range kinds.All {
		o := example(kind.Name)
		expect(t, admit(o, dualStack, spec.Rules{}))
		again := object.Clone(o)
		if kinds.Of(again).Default(again); !object.Equal(again, o) {
			t.Errorf("%s: defaulting twice changes it", kind.Name)
		}
	}
}

func TestValidateMeta(t *testing.T) {
	long := strings.Repeat("a", 64)
	owner := &corev1.OwnerReference{Kind: "Service", Name: "web", Uid: "u", Controller: proto.Bool(true)}
	for _, test := range []struct {
		name string
		kind string
		meta *corev1.ObjectMeta
		want []string
	}{
		{"service name beginning with a digit", "Service", &corev1.ObjectMeta{Name: "1web"}, []string{"metadata.name INVALID"}},
		{"service name with a dot", "Service", &corev1.ObjectMeta{Name: "a.b"}, []string{"metadata.name INVALID"}},
		{"service name of 63", "Service", &corev1.ObjectMeta{Name: long[:63]}, nil},
		{"service name of 64", "Service", &corev1.ObjectMeta{Name: long}, []string{"metadata.name INVALID"}},
		{"service name with capital", "Service", &corev1.ObjectMeta{Name: "Web"}, []string{"metadata.name INVALID"}},
		{"no name", "Service", &corev1.ObjectMeta{}, []string{"metadata.name REQUIRED"}},
		{"pod name with dots", "Pod", &corev1.ObjectMeta{Name: "1.web.example"}, nil},
		{"pod name with _", "Pod", &corev1.ObjectMeta{Name: "a_b"}, []string{"metadata.name INVALID"}},
		{"pod name of 254", "Pod", &corev1.ObjectMeta{Name: strings.Repeat("a.", 126) + "ab"}, []string{"metadata.name INVALID"}},
		{"namespace name with a dot", "Namespace", &corev1.ObjectMeta{Name: "a.b"}, []string{"metadata.name INVALID"}},
		{"namespace of a node", "Node", &corev1.ObjectMeta{Name: "n", Namespace: "x"}, []string{"metadata.namespace FORBIDDEN"}},
		{"namespace with a dot", "Pod", &corev1.ObjectMeta{Name: "n", Namespace: "a.b"}, []string{"metadata.namespace INVALID"}},
		{"labels", "Pod", &corev1.ObjectMeta{Name: "n", Labels: map[string]string{"example.com/A_b.c": "", "x": "1.2-3_4"}}, nil},
		{"bad labels", "Pod", &corev1.ObjectMeta{Name: "n", Labels: map[string]string{"/x": "a", "x/": "a", "-a": "a", "y": "a/b", long: "", "z": long}}, []string{
			"metadata.labels INVALID", "metadata.labels INVALID", "metadata.labels INVALID", "metadata.labels INVALID", "metadata.labels INVALID", "metadata.labels INVALID",
		}},
		{"annotations", "Pod", &corev1.ObjectMeta{Name: "n", Annotations: map[string]string{"Example.com/Any": "any: {text}\n"}}, nil},
		{"annotation key", "Pod", &corev1.ObjectMeta{Name: "n", Annotations: map[string]string{"a b": ""}}, []string{"metadata.annotations INVALID"}},
		{"annotations of 256 KiB", "Pod", &corev1.ObjectMeta{Name: "n", Annotations: map[string]string{"k": strings.Repeat("x", 256<<10-1)}}, nil},
		{"annotations of 256 KiB and one", "Pod", &corev1.ObjectMeta{Name: "n", Annotations: map[string]string{"k": strings.Repeat("x", 256<<10)}}, []string{"metadata.annotations TOO_LONG"}},
		{"finalizers", "Pod", &corev1.ObjectMeta{Name: "n", Finalizers: []string{"example.com/a", "b c", "example.com/a"}}, []string{"metadata.finalizers[1] INVALID", "metadata.finalizers[2] DUPLICATE"}},
		{"owner", "Pod", &corev1.ObjectMeta{Name: "n", OwnerReferences: []*corev1.OwnerReference{owner}}, nil},
		{"two controllers", "Pod", &corev1.ObjectMeta{Name: "n", OwnerReferences: []*corev1.OwnerReference{owner, owner}}, []string{"metadata.ownerReferences INVALID"}},
		{"owner without identity", "Pod", &corev1.ObjectMeta{Name: "n", OwnerReferences: []*corev1.OwnerReference{{}}}, []string{
			"metadata.ownerReferences[0].kind REQUIRED", "metadata.ownerReferences[0].name REQUIRED", "metadata.ownerReferences[0].uid REQUIRED",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := example(test.kind)
			m := o.ProtoReflect()
			m.Set(m.Descriptor().Fields().ByName("metadata"), protoValue(test.meta))
			expect(t, admit(o, dualStack, spec.Rules{}), test.want...)
		})
	}
}

func TestValidateEndpointSlice(t *testing.T) {
	addresses := func(family corev1.AddressType, addresses ...string) func(*corev1.EndpointSlice) {
		return func(s *corev1.EndpointSlice) {
			s.AddressType, s.Endpoints = family, []*corev1.Endpoint{{Addresses: addresses}}
		}
	}
	ports := func(ports ...*corev1.EndpointPort) func(*corev1.EndpointSlice) {
		return func(s *corev1.EndpointSlice) { s.Ports = ports }
	}
	endpoint := func(change func(*corev1.Endpoint)) func(*corev1.EndpointSlice) {
		return func(s *corev1.EndpointSlice) { change(s.Endpoints[0]) }
	}
	const ipv4, ipv6, fqdn = corev1.AddressType_ADDRESS_TYPE_IPV4, corev1.AddressType_ADDRESS_TYPE_IPV6, corev1.AddressType_ADDRESS_TYPE_FQDN
	many := func(n int) func(*corev1.EndpointSlice) {
		return func(s *corev1.EndpointSlice) {
			s.Endpoints = nil
			for i := range n {
				s.Endpoints = append(s.Endpoints, &corev1.Endpoint{Addresses: []string{fmt.Sprintf("10.0.%d.%d", i/250, i%250)}})
			}
		}
	}
	zones := func(n int) *corev1.EndpointHints {
		hints := &corev1.EndpointHints{}
		for i := range n {
			hints.ForZones = append(hints.ForZones, &corev1.ForZone{Name: fmt.Sprint("z", i)})
		}
		return hints
	}
	for _, test := range []struct {
		name string
		with func(*corev1.EndpointSlice)
		want []string
	}{
		{"no addressType", addresses(0, "1.2.3.4"), []string{"addressType REQUIRED"}},
		{"no addressType, no address", addresses(0, "1.2.3"), []string{"addressType REQUIRED", "endpoints[0].addresses[0] INVALID"}},
		{"addressType unknown", addresses(9, "1.2.3.4"), []string{"addressType NOT_SUPPORTED"}},
		{"1000 endpoints", many(1000), nil},
		{"1001 endpoints", many(1001), []string{"endpoints TOO_LONG"}},
		{"no addresses", addresses(ipv4), []string{"endpoints[0].addresses REQUIRED"}},
		{"101 addresses", addresses(ipv4, make([]string, 101)...), []string{"endpoints[0].addresses TOO_LONG"}},
		{"special IPv4", addresses(ipv4, "127.0.0.1", "127.64.0.1", "169.254.1.1", "224.0.0.5", "0.0.0.0"), []string{
			"endpoints[0].addresses[0] INVALID", "endpoints[0].addresses[2] INVALID", "endpoints[0].addresses[3] INVALID", "endpoints[0].addresses[4] INVALID",
		}},
		{"special IPv6", addresses(ipv6, "::1", "fe80::1", "::", "ff02::1", "fd00::1"), []string{
			"endpoints[0].addresses[0] INVALID", "endpoints[0].addresses[1] INVALID", "endpoints[0].addresses[2] INVALID", "endpoints[0].addresses[3] INVALID",
		}},
		{"other family", addresses(ipv6, "1.2.3.4"), []string{"endpoints[0].addresses[0] INVALID"}},
		{"no address", addresses(ipv4, "1.2.3", "fe80::1%eth0"), []string{"endpoints[0].addresses[0] INVALID", "endpoints[0].addresses[1] INVALID"}},
		{"FQDN", addresses(fqdn, "db.example.com", "db.example.com."), nil},
		{"FQDN malformed", addresses(fqdn, "a_b.example.com"), []string{"endpoints[0].addresses[0] INVALID"}},
		{"hostname", endpoint(func(e *corev1.Endpoint) { e.Hostname = proto.String("a.b") }), []string{"endpoints[0].hostname INVALID"}},
		{"nodeName", endpoint(func(e *corev1.Endpoint) { e.NodeName = proto.String("A") }), []string{"endpoints[0].nodeName INVALID"}},
		{"weight 65535", endpoint(func(e *corev1.Endpoint) { e.Weight = proto.Uint32(65535) }), nil},
		{"weight 65536", endpoint(func(e *corev1.Endpoint) { e.Weight = proto.Uint32(65536) }), []string{"endpoints[0].weight INVALID"}},
		{"8 zones", endpoint(func(e *corev1.Endpoint) { e.Hints = zones(8) }), nil},
		{"9 zones", endpoint(func(e *corev1.Endpoint) { e.Hints = zones(9) }), []string{"endpoints[0].hints.forZones TOO_LONG"}},
		{"zone twice", endpoint(func(e *corev1.Endpoint) {
			e.Hints = &corev1.EndpointHints{ForZones: []*corev1.ForZone{{Name: "a"}, {Name: "a"}}}
		}), []string{"endpoints[0].hints.forZones[1].name DUPLICATE"}},
		{"node hint", endpoint(func(e *corev1.Endpoint) { e.Hints = &corev1.EndpointHints{ForNodes: []*corev1.ForNode{{Name: "A"}}} }), []string{"endpoints[0].hints.forNodes[0].name INVALID"}},
		{"no ports", ports(), nil},
		{"all ports", ports(&corev1.EndpointPort{}), nil},
		{"port names", ports(&corev1.EndpointPort{Name: proto.String("a")}, &corev1.EndpointPort{Name: proto.String("a")}, &corev1.EndpointPort{Name: proto.String("A")}), []string{"ports[1].name DUPLICATE", "ports[2].name INVALID"}},
		{"port 0", ports(&corev1.EndpointPort{Port: proto.Int32(0)}), []string{"ports[0].port INVALID"}},
		{"port protocol", ports(&corev1.EndpointPort{Protocol: 8}), []string{"ports[0].protocol NOT_SUPPORTED"}},
		{"empty service name", func(s *corev1.EndpointSlice) { s.Metadata.Labels[object.LabelServiceName] = "" }, []string{"metadata.labels[kubernetes.io/service-name] INVALID"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := slice(test.with)
			kinds.Of(s).Default(s)
			rules := spec.Rules{LoopbackEndpoints: []netip.Prefix{netip.MustParsePrefix("127.64.0.0/16")}}
			expect(t, kinds.Of(s).Validate(s, rules), test.want...)
		})
	}
}

func TestEndpointSliceAddressTypeIsImmutable(t *testing.T) {
	old := slice()
	expect(t, admit(old, dualStack, spec.Rules{}))
	updated := slice(func(s *corev1.EndpointSlice) { s.AddressType, s.Endpoints = corev1.AddressType_ADDRESS_TYPE_IPV6, nil })
	expect(t, admitUpdate(updated, old, dualStack), "addressType IMMUTABLE")
}

func TestValidateEndpoints(t *testing.T) {
	many := make([]*corev1.EndpointAddress, 1001)
	for i := range many {
		many[i] = &corev1.EndpointAddress{Ip: fmt.Sprintf("10.0.%d.%d", i/250, i%250)}
	}
	one := many[:1]
	for _, test := range []struct {
		name   string
		subset *corev1.EndpointSubset
		want   []string
	}{
		{"1000", &corev1.EndpointSubset{Addresses: many[:600], NotReadyAddresses: many[600:1000]}, nil},
		{"1001", &corev1.EndpointSubset{Addresses: many[:600], NotReadyAddresses: many[600:]}, []string{"subsets TOO_LONG"}},
		{"no addresses", &corev1.EndpointSubset{}, []string{"subsets[0] REQUIRED"}},
		{"special", &corev1.EndpointSubset{Addresses: []*corev1.EndpointAddress{{Ip: "127.0.0.1"}, {Ip: "x"}}, NotReadyAddresses: []*corev1.EndpointAddress{{Ip: "169.254.0.9"}}}, []string{
			"subsets[0].addresses[0].ip INVALID", "subsets[0].addresses[1].ip INVALID", "subsets[0].notReadyAddresses[0].ip INVALID",
		}},
		{"hostname and node", &corev1.EndpointSubset{Addresses: []*corev1.EndpointAddress{{Ip: "1.2.3.4", Hostname: "A", NodeName: proto.String("")}}}, []string{
			"subsets[0].addresses[0].hostname INVALID", "subsets[0].addresses[0].nodeName INVALID",
		}},
		{"ports", &corev1.EndpointSubset{Addresses: one, Ports: []*corev1.EndpointSubsetPort{{Port: 80}, {Name: "a", Port: 81}, {Name: "a", Port: 0}, {Name: "B", Port: 1, Protocol: 8}}}, []string{
			"subsets[0].ports[0].name REQUIRED", "subsets[0].ports[2].name DUPLICATE", "subsets[0].ports[2].port INVALID",
			"subsets[0].ports[3].name INVALID", "subsets[0].ports[3].protocol NOT_SUPPORTED",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			endpoints := &corev1.Endpoints{Metadata: &corev1.ObjectMeta{Name: "web"}, Subsets: []*corev1.EndpointSubset{test.subset}}
			expect(t, admit(endpoints, dualStack, spec.Rules{}), test.want...)
		})
	}
}

func TestValidatePod(t *testing.T) {
	container := func(change func(*corev1.Container)) func(*corev1.Pod) {
		return func(p *corev1.Pod) { change(p.Spec.Containers[0]) }
	}
	probe := func(probe *corev1.Probe) func(*corev1.Pod) {
		return container(func(c *corev1.Container) { c.ReadinessProbe = probe })
	}
	httpGet := func(get *corev1.HTTPGetAction) *corev1.Probe {
		return &corev1.Probe{Handler: &corev1.Probe_HttpGet{HttpGet: get}}
	}
	exec := func(command ...string) *corev1.Probe {
		return &corev1.Probe{Handler: &corev1.Probe_Exec{Exec: &corev1.ExecAction{Command: command}}}
	}
	ttl := func(seconds int32) *corev1.Probe {
		return &corev1.Probe{Handler: &corev1.Probe_Ttl{Ttl: &corev1.TTLAction{Seconds: seconds}}}
	}
	const c0 = "spec.containers[0]"
	for _, test := range []struct {
		name string
		with func(*corev1.Pod)
		want []string
	}{
		{"no containers", func(p *corev1.Pod) { p.Spec.Containers = nil }, nil},
		{"names", func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain, p.Spec.NodeName = "a.b", "C", "n_1" }, []string{"spec.hostname INVALID", "spec.subdomain INVALID", "spec.nodeName INVALID"}},
		{"weight", func(p *corev1.Pod) { p.Spec.Weight = proto.Uint32(1 << 16) }, []string{"spec.weight INVALID"}},
		{"grace", func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = proto.Int64(-1) }, []string{"spec.terminationGracePeriodSeconds INVALID"}},
		{"restart policy", func(p *corev1.Pod) { p.Spec.RestartPolicy = "Sometimes" }, []string{"spec.restartPolicy NOT_SUPPORTED"}},
		{"gate", func(p *corev1.Pod) { p.Spec.ReadinessGates = []*corev1.PodReadinessGate{{ConditionType: "a b"}} }, []string{"spec.readinessGates[0].conditionType INVALID"}},
		{"container names", func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, &corev1.Container{}, &corev1.Container{Name: "C"})
			p.Spec.InitContainers = []*corev1.Container{{Name: "c", RestartPolicy: proto.String("Never-ever")}}
		}, []string{"spec.containers[1].name REQUIRED", "spec.containers[2].name INVALID", "spec.initContainers[0].name DUPLICATE", "spec.initContainers[0].restartPolicy NOT_SUPPORTED"}},
		{"ports", container(func(c *corev1.Container) {
			c.Ports = append(c.Ports, &corev1.ContainerPort{Name: "http", ContainerPort: 0}, &corev1.ContainerPort{Name: "a_b", ContainerPort: 1, Protocol: 9, HostPort: -1, HostIp: "x"})
		}), []string{c0 + ".ports[1].name DUPLICATE", c0 + ".ports[1].containerPort INVALID", c0 + ".ports[2].name INVALID", c0 + ".ports[2].protocol NOT_SUPPORTED", c0 + ".ports[2].hostPort INVALID", c0 + ".ports[2].hostIP INVALID"}},
		{"env", container(func(c *corev1.Container) { c.Env = []*corev1.EnvVar{{}, {Name: "a=b"}, {Name: "a.b"}} }), []string{c0 + ".env[0].name REQUIRED", c0 + ".env[1].name INVALID"}},
		{"probe of nothing", probe(&corev1.Probe{}), []string{c0 + ".readinessProbe REQUIRED"}},
		{"probe tcp by name", probe(&corev1.Probe{Handler: &corev1.Probe_TcpSocket{TcpSocket: &corev1.TCPSocketAction{Port: named("http")}}}), nil},
		{"probe tcp without port", probe(&corev1.Probe{Handler: &corev1.Probe_TcpSocket{TcpSocket: &corev1.TCPSocketAction{}}}), []string{c0 + ".readinessProbe.tcpSocket.port INVALID"}},
		{"probe grpc", probe(&corev1.Probe{Handler: &corev1.Probe_Grpc{Grpc: &corev1.GRPCAction{Port: 70000}}}), []string{c0 + ".readinessProbe.grpc.port INVALID"}},
		{"probe http", probe(httpGet(&corev1.HTTPGetAction{Port: number(80), HttpHeaders: []*corev1.HTTPHeader{{Name: "X-A", Value: "b"}}})), nil},
		{"probe http wrong", probe(httpGet(&corev1.HTTPGetAction{Port: named("-"), Scheme: "ftp", HttpHeaders: []*corev1.HTTPHeader{{Name: "X A", Value: "b\r\nc"}}})), []string{
			c0 + ".readinessProbe.httpGet.port INVALID", c0 + ".readinessProbe.httpGet.scheme NOT_SUPPORTED",
			c0 + ".readinessProbe.httpGet.httpHeaders[0].name INVALID", c0 + ".readinessProbe.httpGet.httpHeaders[0].value INVALID",
		}},
		{"probe numbers", probe(&corev1.Probe{Handler: &corev1.Probe_Grpc{Grpc: &corev1.GRPCAction{Port: 1}}, InitialDelaySeconds: -1, TimeoutSeconds: -1, PeriodSeconds: -1, SuccessThreshold: -1, FailureThreshold: -1}), []string{
			c0 + ".readinessProbe.initialDelaySeconds INVALID", c0 + ".readinessProbe.timeoutSeconds INVALID", c0 + ".readinessProbe.periodSeconds INVALID",
			c0 + ".readinessProbe.successThreshold INVALID", c0 + ".readinessProbe.failureThreshold INVALID",
		}},
		{"probe exec", probe(exec("check-db", "--host", "a b")), nil},
		{"probe exec as in Kubernetes", probe(exec("/bin/sh", "-c", "exit 0")), nil},
		{"probe exec of nothing", probe(exec()), []string{c0 + ".readinessProbe.exec.command REQUIRED"}},
		{"probe exec without a script", probe(exec("", "a")), []string{c0 + ".readinessProbe.exec.command[0] REQUIRED"}},
		{"probe exec of an odd word", probe(exec("a", "b\x00c", strings.Repeat("x", 4097))), []string{c0 + ".readinessProbe.exec.command[1] INVALID", c0 + ".readinessProbe.exec.command[2] TOO_LONG"}},
		{"probe exec of many words", probe(exec(make([]string, 66)...)), []string{c0 + ".readinessProbe.exec.command TOO_LONG"}},
		{"probe ttl", probe(ttl(30)), nil},
		{"probe ttl of no time", probe(ttl(0)), []string{c0 + ".readinessProbe.ttl.seconds INVALID"}},
		{"probe ttl of two days", probe(ttl(2 * 86400)), []string{c0 + ".readinessProbe.ttl.seconds INVALID"}},
		{"probe ttl that asks", probe(&corev1.Probe{Handler: ttl(1).GetHandler(), PeriodSeconds: 5, FailureThreshold: 1, InitialDelaySeconds: -1}), []string{
			c0 + ".readinessProbe.periodSeconds INVALID", c0 + ".readinessProbe.failureThreshold INVALID", c0 + ".readinessProbe.initialDelaySeconds INVALID",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			expect(t, admit(pod(test.with), dualStack, spec.Rules{}), test.want...)
		})
	}
}

func TestValidatePodStatus(t *testing.T) {
	rules := spec.Rules{LoopbackEndpoints: []netip.Prefix{netip.MustParsePrefix("127.64.0.0/16")}}
	for i, test := range []struct {
		status *corev1.PodStatus
		want   []string
	}{
		{&corev1.PodStatus{PodIps: []string{"10.0.0.1", "fd00::1"}}, nil},
		{&corev1.PodStatus{PodIp: "127.64.0.9"}, nil},
		{&corev1.PodStatus{PodIp: "127.0.0.9"}, []string{"status.podIPs[0] INVALID"}},
		{&corev1.PodStatus{PodIp: "10.0.0.2", PodIps: []string{"10.0.0.1"}}, []string{"status.podIP INVALID"}},
		{&corev1.PodStatus{PodIps: []string{"10.0.0.1", "10.0.0.2"}}, []string{"status.podIPs INVALID"}},
		{&corev1.PodStatus{HostIp: "x", Phase: 9}, []string{"status.hostIP INVALID", "status.phase NOT_SUPPORTED"}},
		{&corev1.PodStatus{Conditions: []*corev1.Condition{{Type: "Ready", Status: 1}, {Type: "Ready", Status: 2}, {}}}, []string{
			"status.conditions[1].type DUPLICATE", "status.conditions[2].type REQUIRED", "status.conditions[2].status NOT_SUPPORTED",
		}},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			p := pod()
			p.Status = test.status
			kinds.Of(p).Default(p)
			expect(t, kinds.Of(p).ValidateStatus(p, rules), test.want...)
		})
	}
}

func TestPodStaysOnItsNode(t *testing.T) {
	old := pod()
	expect(t, admit(old, dualStack, spec.Rules{}))
	expect(t, admitUpdate(pod(func(p *corev1.Pod) { p.Spec.NodeName = "n2" }), old, dualStack), "spec.nodeName IMMUTABLE")
}

func TestValidateNode(t *testing.T) {
	node := func(nodeSpec *corev1.NodeSpec, addresses ...*corev1.NodeAddress) *corev1.Node {
		return &corev1.Node{Metadata: &corev1.ObjectMeta{Name: "n"}, Spec: nodeSpec, Status: &corev1.NodeStatus{Addresses: addresses}}
	}
	for i, test := range []struct {
		node *corev1.Node
		want []string
	}{
		{node(&corev1.NodeSpec{PodCidrs: []string{"10.0.0.0/24", "fd00::/64"}}), nil},
		{node(&corev1.NodeSpec{PodCidr: "10.0.1.0/24", PodCidrs: []string{"10.0.0.0/24", "10.0.2.0/24"}}), []string{"spec.podCIDR INVALID", "spec.podCIDRs INVALID"}},
		{node(&corev1.NodeSpec{PodCidr: "10.0.1.0"}), []string{"spec.podCIDRs[0] INVALID"}},
		{node(&corev1.NodeSpec{Taints: []*corev1.Taint{{Key: "a", Effect: "NoSchedule"}, {Key: "a", Effect: "NoSchedule"}, {Key: "", Value: "x y", Effect: "No"}}}), []string{
			"spec.taints[1] DUPLICATE", "spec.taints[2].key INVALID", "spec.taints[2].value INVALID", "spec.taints[2].effect NOT_SUPPORTED",
		}},
		{node(nil, &corev1.NodeAddress{Type: "InternalIP", Address: "192.0.2.1"}, &corev1.NodeAddress{Type: "Hostname", Address: "n"}), nil},
		{node(nil, &corev1.NodeAddress{Type: "ExternalIP", Address: "n"}, &corev1.NodeAddress{Type: "Hostname"}, &corev1.NodeAddress{Type: "IP", Address: "192.0.2.1"}), []string{
			"status.addresses[0].address INVALID", "status.addresses[1].address REQUIRED", "status.addresses[2].type NOT_SUPPORTED",
		}},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			kinds.Of(test.node).Default(test.node)
			expect(t, kinds.Of(test.node).Validate(test.node, spec.Rules{}), test.want...)
		})
	}
	old := example("Node")
	expect(t, admit(old, dualStack, spec.Rules{}))
	expect(t, admitUpdate(node(&corev1.NodeSpec{PodCidr: "10.1.0.0/24"}), old, dualStack), "metadata.name IMMUTABLE", "spec.podCIDRs IMMUTABLE")
}

func TestValidateLeaseEventNamespace(t *testing.T) {
	meta := func() *corev1.ObjectMeta { return &corev1.ObjectMeta{Name: "x"} }
	regarding := func(namespace string) *corev1.ObjectReference {
		return &corev1.ObjectReference{Kind: "Pod", Name: "p", Namespace: namespace}
	}
	for i, test := range []struct {
		o    object.Object
		want []string
	}{
		{&corev1.Lease{Metadata: meta()}, nil},
		{&corev1.Lease{Metadata: meta(), Spec: &corev1.LeaseSpec{HolderIdentity: "a"}}, []string{"spec.leaseDurationSeconds REQUIRED"}},
		{&corev1.Lease{Metadata: meta(), Spec: &corev1.LeaseSpec{LeaseDurationSeconds: -1, LeaseTransitions: -1, Shards: -1}}, []string{"spec.leaseDurationSeconds INVALID", "spec.leaseTransitions INVALID", "spec.shards INVALID"}},
		{&corev1.Event{Metadata: meta()}, []string{"regarding.kind REQUIRED", "regarding.name REQUIRED", "reason REQUIRED"}},
		{&corev1.Event{Metadata: meta(), Regarding: regarding("other"), Reason: "R"}, []string{"regarding.namespace INVALID"}},
		{&corev1.Event{Metadata: meta(), Regarding: regarding(""), Reason: "R", Message: strings.Repeat("m", 1024)}, nil},
		{&corev1.Event{Metadata: meta(), Regarding: regarding("default"), Reason: strings.Repeat("R", 129), Message: strings.Repeat("m", 1025), Type: 9}, []string{"reason TOO_LONG", "message TOO_LONG", "type NOT_SUPPORTED"}},
		{&corev1.Namespace{Metadata: meta(), Spec: &corev1.NamespaceSpec{Finalizers: []string{"kubernetes", "a b"}}}, []string{"spec.finalizers[1] INVALID"}},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			expect(t, admit(test.o, dualStack, spec.Rules{}), test.want...)
		})
	}
}
