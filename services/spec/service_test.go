package spec_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/balancer"
	"portolan.dev/services/kinds"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// Prefixes of the annotations of load balancers.
const (
	edge = balancer.Prefix
	aws  = "service.beta.kubernetes.io/aws-load-balancer-"
)

func TestDefaultService(t *testing.T) {
	svc := web(ofType(loadBalancer))
	svc.Spec.Ports = append(svc.Spec.Ports, &corev1.ServicePort{Name: "https", Port: 443})
	svc.Spec.SessionAffinity = corev1.SessionAffinity_SESSION_AFFINITY_CLIENT_IP
	svc.Status = &corev1.ServiceStatus{LoadBalancer: &corev1.LoadBalancerStatus{Ingress: []*corev1.LoadBalancerIngress{{Ip: "192.0.2.1"}, {Hostname: "lb.example.com"}}}}
	kinds.Of(svc).Default(svc)
	want := web(ofType(loadBalancer))
	want.Metadata.Namespace = "default"
	want.Spec.Ports = []*corev1.ServicePort{
		{Name: "http", Protocol: tcp, Port: 80, TargetPort: number(9376)},
		{Name: "https", Protocol: tcp, Port: 443, TargetPort: number(443)},
	}
	want.Spec.SessionAffinity = corev1.SessionAffinity_SESSION_AFFINITY_CLIENT_IP
	want.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIp: &corev1.ClientIPConfig{TimeoutSeconds: proto.Int32(10800)}}
	want.Spec.ExternalTrafficPolicy, want.Spec.InternalTrafficPolicy = cluster, cluster
	want.Spec.AllocateLoadBalancerNodePorts = proto.Bool(true)
	want.Status = &corev1.ServiceStatus{LoadBalancer: &corev1.LoadBalancerStatus{Ingress: []*corev1.LoadBalancerIngress{
		{Ip: "192.0.2.1", IpMode: corev1.IPMode_IP_MODE_VIP}, {Hostname: "lb.example.com"},
	}}}
	if !proto.Equal(svc, want) {
		t.Errorf("got  %v\nwant %v", svc, want)
	}
}

func TestDefaultTrafficPolicies(t *testing.T) {
	outside := func(svc *corev1.Service) { svc.Spec.ExternalIps = []string{"198.51.100.32"} }
	for _, test := range []struct {
		name               string
		svc                *corev1.Service
		external, internal corev1.TrafficPolicy
	}{
		{"ClusterIP", web(), 0, cluster},
		{"ClusterIP with externalIPs", web(outside), cluster, cluster},
		{"headless", web(headless), 0, cluster},
		{"NodePort", web(ofType(nodePort)), cluster, cluster},
		{"LoadBalancer", web(ofType(loadBalancer)), cluster, cluster},
		{"ExternalName", web(ofType(externalName)), 0, 0},
		{"ExternalName with externalIPs", web(ofType(externalName), outside), 0, 0},
	} {
		spec.DefaultService(test.svc)
		if got := test.svc.Spec; got.ExternalTrafficPolicy != test.external || got.InternalTrafficPolicy != test.internal {
			t.Errorf("%s: external %v, internal %v", test.name, got.ExternalTrafficPolicy, got.InternalTrafficPolicy)
		}
	}
}

func TestDefaultClearsConfigOfNoAffinity(t *testing.T) {
	svc := web(func(svc *corev1.Service) {
		svc.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIp: &corev1.ClientIPConfig{TimeoutSeconds: proto.Int32(5)}}
	})
	expect(t, admit(svc, singleStack, spec.Rules{}))
	if svc.Spec.SessionAffinityConfig != nil {
		t.Errorf("config = %v", svc.Spec.SessionAffinityConfig)
	}
}

// port returns a change of the first port of web.
func port(change func(*corev1.ServicePort)) func(*corev1.Service) {
	return func(svc *corev1.Service) { change(svc.Spec.Ports[0]) }
}

func portNamed(name string) func(*corev1.Service) {
	return port(func(p *corev1.ServicePort) { p.Name = name })
}

func target(target *corev1.IntOrString) func(*corev1.Service) {
	return port(func(p *corev1.ServicePort) { p.TargetPort = target })
}

func appProtocol(value string) func(*corev1.Service) {
	return port(func(p *corev1.ServicePort) { p.AppProtocol = &value })
}

func secondPort(p *corev1.ServicePort) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Spec.Ports = append(svc.Spec.Ports, p) }
}

func nodePortNumber(n int32) func(*corev1.Service) {
	return port(func(p *corev1.ServicePort) { p.NodePort = n })
}

func affinity(seconds int32) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		svc.Spec.SessionAffinity = corev1.SessionAffinity_SESSION_AFFINITY_CLIENT_IP
		svc.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIp: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
	}
}

func sourceRanges(ranges ...string) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Spec.LoadBalancerSourceRanges = ranges }
}

func annotate(key, value string) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		if svc.Metadata.Annotations == nil {
			svc.Metadata.Annotations = map[string]string{}
		}
		svc.Metadata.Annotations[key] = value
	}
}

func class(name string) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Spec.LoadBalancerClass = &name }
}

func externalIPs(ips ...string) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Spec.ExternalIps = ips }
}

func families(families ...corev1.IPFamily) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Spec.IpFamilies = families }
}

func policy(policy corev1.IPFamilyPolicy) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Spec.IpFamilyPolicy = policy }
}

func externalPolicy(policy corev1.TrafficPolicy) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Spec.ExternalTrafficPolicy = policy }
}

func withSpec(change func(*corev1.ServiceSpec)) func(*corev1.Service) {
	return func(svc *corev1.Service) { change(svc.Spec) }
}

func TestValidateService(t *testing.T) {
	long := strings.Repeat("a", 64)
	type changes []func(*corev1.Service)
	for _, test := range []struct {
		name string
		with changes
		want []string
	}{
		{"as it is", changes{}, nil},
		{"no ports", changes{withoutPorts}, []string{"spec.ports REQUIRED"}},
		{"no ports, headless", changes{withoutPorts, headless}, nil},
		{"no ports, ExternalName", changes{withoutPorts, ofType(externalName)}, nil},
		{"port 0", changes{port(func(p *corev1.ServicePort) { p.Port = 0 })}, []string{"spec.ports[0].port INVALID"}},
		{"port 65535", changes{port(func(p *corev1.ServicePort) { p.Port = 65535 })}, nil},
		{"port 65536", changes{port(func(p *corev1.ServicePort) { p.Port = 65536 })}, []string{"spec.ports[0].port INVALID"}},
		{"protocol unknown", changes{port(func(p *corev1.ServicePort) { p.Protocol = 9 })}, []string{"spec.ports[0].protocol NOT_SUPPORTED"}},
		{"protocol SCTP", changes{port(func(p *corev1.ServicePort) { p.Protocol = sctp })}, nil},
		{"only port without name", changes{portNamed("")}, nil},
		{"port name 123-abc", changes{portNamed("123-abc")}, nil},
		{"port name 123_abc", changes{portNamed("123_abc")}, []string{"spec.ports[0].name INVALID"}},
		{"port name -web", changes{portNamed("-web")}, []string{"spec.ports[0].name INVALID"}},
		{"port name Web", changes{portNamed("Web")}, []string{"spec.ports[0].name INVALID"}},
		{"port name of 63", changes{portNamed(long[:63])}, nil},
		{"port name of 64", changes{portNamed(long)}, []string{"spec.ports[0].name INVALID"}},
		{"second port without name", changes{secondPort(&corev1.ServicePort{Port: 443})}, []string{"spec.ports[1].name REQUIRED"}},
		{"second port of the same name", changes{secondPort(&corev1.ServicePort{Name: "http", Port: 443})}, []string{"spec.ports[1].name DUPLICATE"}},
		{"second port of the same number", changes{secondPort(&corev1.ServicePort{Name: "b", Port: 80})}, []string{"spec.ports[1] DUPLICATE"}},
		{"the same number for UDP", changes{secondPort(&corev1.ServicePort{Name: "b", Port: 80, Protocol: udp})}, nil},
		{"targetPort by name", changes{target(named("http-web-svc"))}, nil},
		{"targetPort name of 15", changes{target(named("abcdefghijklmno"))}, nil},
		{"targetPort name of 16", changes{target(named("abcdefghijklmnop"))}, []string{"spec.ports[0].targetPort INVALID"}},
		{"targetPort name with --", changes{target(named("a--b"))}, []string{"spec.ports[0].targetPort INVALID"}},
		{"targetPort name of digits", changes{target(named("80"))}, []string{"spec.ports[0].targetPort INVALID"}},
		{"targetPort 65536", changes{target(number(65536))}, []string{"spec.ports[0].targetPort INVALID"}},
		{"targetPort 65535", changes{target(number(65535))}, nil},
		{"targetPort negative", changes{target(number(-1))}, []string{"spec.ports[0].targetPort INVALID"}},
		{"appProtocol http", changes{appProtocol("http")}, nil},
		{"appProtocol kubernetes.io/h2c", changes{appProtocol("kubernetes.io/h2c")}, nil},
		{"appProtocol empty", changes{appProtocol("")}, []string{"spec.ports[0].appProtocol INVALID"}},
		{"appProtocol with space", changes{appProtocol("h 2")}, []string{"spec.ports[0].appProtocol INVALID"}},
		{"appProtocol name of 63", changes{appProtocol("example.com/" + long[:63])}, nil},
		{"appProtocol name of 64", changes{appProtocol("example.com/" + long)}, []string{"spec.ports[0].appProtocol INVALID"}},
		{"nodePort on ClusterIP", changes{nodePortNumber(30007)}, []string{"spec.ports[0].nodePort FORBIDDEN"}},
		{"nodePort on ExternalName", changes{ofType(externalName), nodePortNumber(30007)}, []string{"spec.ports[0].nodePort FORBIDDEN"}},
		{"nodePort on NodePort", changes{ofType(nodePort), nodePortNumber(30007)}, nil},
		{"nodePort on LoadBalancer", changes{ofType(loadBalancer), nodePortNumber(30061)}, nil},
		{"nodePort 70000", changes{ofType(nodePort), nodePortNumber(70000)}, []string{"spec.ports[0].nodePort INVALID"}},
		{"nodePort twice", changes{ofType(nodePort), nodePortNumber(30007), secondPort(&corev1.ServicePort{Name: "b", Port: 81, NodePort: 30007})}, []string{"spec.ports[1].nodePort DUPLICATE"}},
		{"nodePort twice with UDP", changes{ofType(nodePort), nodePortNumber(30007), secondPort(&corev1.ServicePort{Name: "b", Port: 81, NodePort: 30007, Protocol: udp})}, nil},

		{"type unknown", changes{ofType(42)}, []string{"spec.type NOT_SUPPORTED"}},
		{"headless NodePort", changes{ofType(nodePort), headless}, []string{"spec.clusterIPs[0] INVALID"}},
		{"headless LoadBalancer", changes{ofType(loadBalancer), headless}, []string{"spec.clusterIPs[0] INVALID"}},
		{"ExternalName", changes{ofType(externalName)}, nil},
		{"ExternalName with final dot", changes{ofType(externalName), withSpec(func(s *corev1.ServiceSpec) { s.ExternalName = "db.example.com." })}, nil},
		{"ExternalName of digits", changes{ofType(externalName), withSpec(func(s *corev1.ServiceSpec) { s.ExternalName = "192.0.2.42" })}, nil},
		{"ExternalName with two dots", changes{ofType(externalName), withSpec(func(s *corev1.ServiceSpec) { s.ExternalName = "db.." })}, []string{"spec.externalName INVALID"}},
		{"ExternalName with _", changes{ofType(externalName), withSpec(func(s *corev1.ServiceSpec) { s.ExternalName = "a_b.example.com" })}, []string{"spec.externalName INVALID"}},
		{"ExternalName of 253", changes{ofType(externalName), withSpec(func(s *corev1.ServiceSpec) { s.ExternalName = strings.Repeat("a.", 126) + "b" })}, nil},
		{"ExternalName of 254", changes{ofType(externalName), withSpec(func(s *corev1.ServiceSpec) { s.ExternalName = strings.Repeat("a.", 126) + "bc" })}, []string{"spec.externalName INVALID"}},
		{"ExternalName empty", changes{ofType(externalName), withSpec(func(s *corev1.ServiceSpec) { s.ExternalName = "" })}, []string{"spec.externalName REQUIRED"}},
		{"ExternalName with IP and families", changes{ofType(externalName), onIP("10.96.0.1"), families(v4), policy(single)}, []string{
			"spec.clusterIP FORBIDDEN", "spec.clusterIPs FORBIDDEN", "spec.ipFamilies FORBIDDEN", "spec.ipFamilyPolicy FORBIDDEN",
		}},

		{"affinity 0 s", changes{affinity(0)}, []string{"spec.sessionAffinityConfig.clientIP.timeoutSeconds INVALID"}},
		{"affinity 1 s", changes{affinity(1)}, nil},
		{"affinity 86400 s", changes{affinity(86400)}, nil},
		{"affinity 86401 s", changes{affinity(86401)}, []string{"spec.sessionAffinityConfig.clientIP.timeoutSeconds INVALID"}},
		{"affinity unknown", changes{withSpec(func(s *corev1.ServiceSpec) { s.SessionAffinity = 7 })}, []string{"spec.sessionAffinity NOT_SUPPORTED"}},
		{"selector key", changes{withSpec(func(s *corev1.ServiceSpec) { s.Selector = map[string]string{"a b": "x"} })}, []string{"spec.selector INVALID"}},
		{"selector value", changes{withSpec(func(s *corev1.ServiceSpec) { s.Selector = map[string]string{"a": "x y"} })}, []string{"spec.selector INVALID"}},

		{"externalIPs", changes{externalIPs("80.11.12.10", "2001:db8::1")}, nil},
		{"externalIPs text", changes{externalIPs("myhost")}, []string{"spec.externalIPs[0] INVALID"}},
		{"externalIPs special", changes{externalIPs("0.0.0.0", "127.0.0.1", "169.254.0.1", "224.0.0.1", "::1", "fe80::1", "::")}, []string{
			"spec.externalIPs[0] INVALID", "spec.externalIPs[1] INVALID", "spec.externalIPs[2] INVALID", "spec.externalIPs[3] INVALID",
			"spec.externalIPs[4] INVALID", "spec.externalIPs[5] INVALID", "spec.externalIPs[6] INVALID",
		}},
		{"externalIPs IPv4 in IPv6", changes{externalIPs("::ffff:80.11.12.10")}, []string{"spec.externalIPs[0] INVALID"}},
		{"externalIPs among the virtual IPs", changes{externalIPs("10.96.3.4")}, []string{"spec.externalIPs[0] INVALID"}},
		{"externalIPs twice", changes{externalIPs("80.11.12.10", "80.11.12.10")}, []string{"spec.externalIPs[1] DUPLICATE"}},

		{"externalTrafficPolicy on ClusterIP", changes{externalPolicy(local)}, []string{"spec.externalTrafficPolicy FORBIDDEN"}},
		{"externalTrafficPolicy with externalIPs", changes{externalPolicy(local), externalIPs("80.11.12.10")}, nil},
		{"externalTrafficPolicy Local on NodePort", changes{ofType(nodePort), externalPolicy(local)}, nil},
		{"externalTrafficPolicy unknown", changes{ofType(nodePort), externalPolicy(5)}, []string{"spec.externalTrafficPolicy NOT_SUPPORTED"}},
		{"internalTrafficPolicy Local", changes{withSpec(func(s *corev1.ServiceSpec) { s.InternalTrafficPolicy = local })}, nil},
		{"internalTrafficPolicy unknown", changes{withSpec(func(s *corev1.ServiceSpec) { s.InternalTrafficPolicy = 9 })}, []string{"spec.internalTrafficPolicy NOT_SUPPORTED"}},
		{"trafficDistribution", changes{withSpec(func(s *corev1.ServiceSpec) { s.TrafficDistribution = 3 })}, nil},
		{"trafficDistribution unknown", changes{withSpec(func(s *corev1.ServiceSpec) { s.TrafficDistribution = 4 })}, []string{"spec.trafficDistribution NOT_SUPPORTED"}},
		{"healthCheckNodePort", changes{ofType(loadBalancer), externalPolicy(local), withSpec(func(s *corev1.ServiceSpec) { s.HealthCheckNodePort = 30500 })}, nil},
		{"healthCheckNodePort that is a node port of the service", changes{ofType(loadBalancer), externalPolicy(local), port(func(p *corev1.ServicePort) { p.NodePort = 30500 }),
			withSpec(func(s *corev1.ServiceSpec) { s.HealthCheckNodePort = 30500 })}, []string{"spec.healthCheckNodePort INVALID"}},
		{"SCTP through a load balancer", changes{ofType(loadBalancer), port(func(p *corev1.ServicePort) { p.Protocol = sctp })}, nil},
		{"SCTP through node ports", changes{ofType(nodePort), port(func(p *corev1.ServicePort) { p.Protocol = sctp })}, nil},
		{"healthCheckNodePort negative", changes{ofType(loadBalancer), externalPolicy(local), withSpec(func(s *corev1.ServiceSpec) { s.HealthCheckNodePort = -1 })}, []string{"spec.healthCheckNodePort INVALID"}},
		{"healthCheckNodePort 65536", changes{ofType(loadBalancer), externalPolicy(local), withSpec(func(s *corev1.ServiceSpec) { s.HealthCheckNodePort = 65536 })}, []string{"spec.healthCheckNodePort INVALID"}},
		{"healthCheckNodePort without Local", changes{ofType(loadBalancer), withSpec(func(s *corev1.ServiceSpec) { s.HealthCheckNodePort = 30500 })}, []string{"spec.healthCheckNodePort FORBIDDEN"}},
		{"healthCheckNodePort on NodePort", changes{ofType(nodePort), externalPolicy(local), withSpec(func(s *corev1.ServiceSpec) { s.HealthCheckNodePort = 30500 })}, []string{"spec.healthCheckNodePort FORBIDDEN"}},

		{"source ranges", changes{ofType(loadBalancer), sourceRanges("143.231.0.0/16", " 2001:db8::/32 ")}, nil},
		{"source range of an address", changes{ofType(loadBalancer), sourceRanges("143.231.0.0")}, []string{"spec.loadBalancerSourceRanges[0] INVALID"}},
		{"source ranges on ClusterIP", changes{sourceRanges("143.231.0.0/16")}, []string{"spec.loadBalancerSourceRanges FORBIDDEN"}},
		{"source ranges apply to", changes{ofType(loadBalancer), annotate("portolan.dev/source-ranges-apply-to", "loadBalancer, nodePort,externalIP")}, nil},
		{"source ranges apply to what there is not", changes{ofType(loadBalancer), annotate("portolan.dev/source-ranges-apply-to", "nodePort,clusterIP")}, []string{"metadata.annotations[portolan.dev/source-ranges-apply-to] NOT_SUPPORTED"}},
		{"source ranges annotated", changes{ofType(loadBalancer), annotate(object.AnnotationSourceRanges, "10.0.0.0/8, 10.1.0.0/16")}, nil},
		{"source ranges annotated badly", changes{ofType(loadBalancer), annotate(object.AnnotationSourceRanges, "10.0.0.0/8,x")}, []string{"metadata.annotations[" + object.AnnotationSourceRanges + "][1] INVALID"}},
		{"source ranges annotated on NodePort", changes{ofType(nodePort), annotate(object.AnnotationSourceRanges, "10.0.0.0/8")}, []string{"metadata.annotations[" + object.AnnotationSourceRanges + "] FORBIDDEN"}},
		{"allocateLoadBalancerNodePorts on ClusterIP", changes{withSpec(func(s *corev1.ServiceSpec) { s.AllocateLoadBalancerNodePorts = proto.Bool(false) })}, []string{"spec.allocateLoadBalancerNodePorts FORBIDDEN"}},
		{"allocateLoadBalancerNodePorts on LoadBalancer", changes{ofType(loadBalancer), withSpec(func(s *corev1.ServiceSpec) { s.AllocateLoadBalancerNodePorts = proto.Bool(false) })}, nil},
		{"class", changes{ofType(loadBalancer), class("internal-vip")}, nil},
		{"class with prefix", changes{ofType(loadBalancer), class("example.com/internal-vip")}, nil},
		{"class with two slashes", changes{ofType(loadBalancer), class("a/b/c")}, []string{"spec.loadBalancerClass INVALID"}},
		{"annotations of an edge", changes{ofType(loadBalancer), class(balancer.ClassEdge), annotate(edge+"proxy-protocol", "v2"), annotate(aws+"healthcheck-interval", "20"), annotate(aws+"type", "nlb"), annotate(edge+"colour", "blue")}, nil},
		{
			"bad annotations of an edge", changes{ofType(loadBalancer), class(balancer.ClassEdge), annotate(edge+"proxy-protocol", "v3"), annotate(aws+"healthcheck-timeout", "20"), annotate(edge+"tls-ports", "80")},
			[]string{"metadata.annotations[" + edge + "proxy-protocol] INVALID", "metadata.annotations[" + aws + "healthcheck-timeout] INVALID", "metadata.annotations[" + edge + "tls-ports] INVALID"},
		},
		{"bad annotations of another class", changes{ofType(loadBalancer), class("internal-vip"), annotate(edge+"proxy-protocol", "v3")}, nil},
		{"bad annotations of no class", changes{ofType(loadBalancer), annotate(aws+"healthcheck-timeout", "20")}, nil},
		{"bad annotations of another type", changes{ofType(nodePort), annotate(edge+"proxy-protocol", "v3")}, nil},
		{"class on NodePort", changes{ofType(nodePort), class("internal-vip")}, []string{"spec.loadBalancerClass FORBIDDEN"}},
		{"loadBalancerIP of any form", changes{ofType(loadBalancer), withSpec(func(s *corev1.ServiceSpec) { s.LoadBalancerIp = "my address" })}, nil},

		{"clusterIP only", changes{withSpec(func(s *corev1.ServiceSpec) { s.ClusterIp = "10.0.171.239" })}, nil},
		{"clusterIP malformed", changes{withSpec(func(s *corev1.ServiceSpec) { s.ClusterIp = "10.0.171" })}, []string{"spec.clusterIPs[0] INVALID"}},
		{"clusterIPs only", changes{withSpec(func(s *corev1.ServiceSpec) { s.ClusterIps = []string{"10.0.0.1"} })}, []string{"spec.clusterIP REQUIRED"}},
		{"clusterIP is not the first", changes{onIP("10.0.0.1"), withSpec(func(s *corev1.ServiceSpec) { s.ClusterIp = "10.0.0.2" })}, []string{"spec.clusterIPs INVALID"}},
		{"None second", changes{onIP("10.0.0.1", "None")}, []string{"spec.clusterIPs[1] INVALID"}},
		{"None first of two", changes{onIP("None", "10.0.0.1"), policy(require)}, []string{"spec.clusterIPs[0] INVALID"}},
		{"three IPs", changes{onIP("10.0.0.1", "fd00::1", "10.0.0.2"), policy(prefer)}, []string{"spec.clusterIPs TOO_LONG"}},
		{"two IPs of one family", changes{onIP("10.0.0.1", "10.0.0.2"), policy(prefer)}, []string{"spec.clusterIPs[1] INVALID"}},
		{"two IPs of two families", changes{onIP("10.0.0.1", "fd00::1"), families(v4, v6), policy(require)}, nil},
		{"two IPs, second malformed", changes{onIP("10.0.0.1", "fd00::x"), policy(prefer)}, []string{"spec.clusterIPs[1] INVALID"}},
		{"one IP twice", changes{onIP("10.0.0.1", "10.0.0.1"), policy(prefer)}, []string{"spec.clusterIPs[1] INVALID"}},
		{"families twice", changes{families(v4, v4), policy(prefer)}, []string{"spec.ipFamilies[1] DUPLICATE"}},
		{"family unknown", changes{families(7)}, []string{"spec.ipFamilies[0] NOT_SUPPORTED"}},
		{"policy unknown", changes{policy(9)}, []string{"spec.ipFamilyPolicy NOT_SUPPORTED"}},
		{"family unknown", changes{families(9)}, []string{"spec.ipFamilies[0] NOT_SUPPORTED"}},
		{"family empty", changes{families(0)}, []string{"spec.ipFamilies[0] NOT_SUPPORTED"}},
		{"IP not of its family", changes{onIP("10.0.0.1"), families(v6)}, []string{"spec.clusterIPs[0] INVALID"}},
		{"SingleStack with two", changes{onIP("10.0.0.1", "fd00::1"), families(v4, v6), policy(single)}, []string{"spec.clusterIPs TOO_LONG", "spec.ipFamilies TOO_LONG"}},

		{"topology annotations differ", changes{annotate("service.kubernetes.io/topology-mode", "Auto"), annotate("service.kubernetes.io/topology-aware-hints", "Disabled")}, []string{"metadata.annotations[service.kubernetes.io/topology-mode] INVALID"}},
		{"topology annotations agree", changes{annotate("service.kubernetes.io/topology-mode", "Auto"), annotate("service.kubernetes.io/topology-aware-hints", "Auto")}, nil},
		{"scheduler", changes{withSpec(func(s *corev1.ServiceSpec) {
			s.Scheduler = corev1.Scheduler_SCHEDULER_SH
			s.SchedulerFlags = []string{"sh-port"}
		})}, nil},
		{"scheduler unknown", changes{withSpec(func(s *corev1.ServiceSpec) { s.Scheduler = 99 })}, []string{"spec.scheduler NOT_SUPPORTED"}},
		{"flag of another scheduler", changes{withSpec(func(s *corev1.ServiceSpec) {
			s.Scheduler = corev1.Scheduler_SCHEDULER_MH
			s.SchedulerFlags = []string{"sh-port", "mh-port", "mh-port"}
		})}, []string{"spec.schedulerFlags[0] NOT_SUPPORTED", "spec.schedulerFlags[2] DUPLICATE"}},
		{"flag of a scheduler without", changes{withSpec(func(s *corev1.ServiceSpec) { s.SchedulerFlags = []string{"sh-port"} })}, []string{"spec.schedulerFlags[0] FORBIDDEN"}},
		{"drain timeout 0", changes{withSpec(func(s *corev1.ServiceSpec) { s.DrainTimeoutSeconds = proto.Int32(0) })}, nil},
		{"drain timeout negative", changes{withSpec(func(s *corev1.ServiceSpec) { s.DrainTimeoutSeconds = proto.Int32(-1) })}, []string{"spec.drainTimeoutSeconds INVALID"}},

		{"three faults at once", changes{func(svc *corev1.Service) { svc.Metadata.Name = "1web" }, nodePortNumber(30007), affinity(0)}, []string{
			"metadata.name INVALID", "spec.ports[0].nodePort FORBIDDEN", "spec.sessionAffinityConfig.clientIP.timeoutSeconds INVALID",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			rules := spec.Rules{ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}}
			expect(t, admit(web(test.with...), dualStack, rules), test.want...)
		})
	}
}

// TestValidateWithoutDefaults checks the rules that cannot be violated after defaulting.
func TestValidateWithoutDefaults(t *testing.T) {
	svc := &corev1.Service{Spec: &corev1.ServiceSpec{
		Type: loadBalancer, Ports: []*corev1.ServicePort{{Port: 80, TargetPort: number(80)}},
		SessionAffinity: corev1.SessionAffinity_SESSION_AFFINITY_CLIENT_IP,
	}}
	expect(t, kinds.Of(svc).Validate(svc, spec.Rules{}),
		"metadata.name REQUIRED", "metadata.namespace REQUIRED", "spec.ports[0].protocol NOT_SUPPORTED",
		"spec.sessionAffinityConfig.clientIP.timeoutSeconds REQUIRED", "spec.externalTrafficPolicy REQUIRED",
		"spec.internalTrafficPolicy REQUIRED", "spec.allocateLoadBalancerNodePorts REQUIRED")
	svc = web(func(svc *corev1.Service) {
		svc.Metadata.Namespace = "default"
		svc.Spec.SessionAffinity = corev1.SessionAffinity_SESSION_AFFINITY_NONE
		svc.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{}
		svc.Spec.Type, svc.Spec.InternalTrafficPolicy, svc.Spec.Ports[0].Protocol = clusterIP, cluster, tcp
	})
	expect(t, spec.ValidateService(svc, spec.Rules{}), "spec.sessionAffinityConfig FORBIDDEN")
}

func TestPredicates(t *testing.T) {
	never := withSpec(func(s *corev1.ServiceSpec) { s.AllocateLoadBalancerNodePorts = proto.Bool(false) })
	for _, test := range []struct {
		svc  *corev1.Service
		want string // headless, cluster IP, allows and needs node ports, health check, external
	}{
		{web(), "-I----"},
		{web(headless), "H-----"},
		{web(externalIPs("192.0.2.1")), "-I---X"},
		{web(ofType(nodePort)), "-IAN-X"},
		{web(ofType(nodePort), externalPolicy(local)), "-IAN-X"},
		{web(ofType(loadBalancer)), "-IAN-X"},
		{web(ofType(loadBalancer), never), "-IA--X"},
		{web(ofType(loadBalancer), externalPolicy(local)), "-IANCX"},
		{web(ofType(externalName)), "------"},
		{web(ofType(externalName), externalIPs("192.0.2.1")), "------"},
	} {
		got := []byte("------")
		for i, holds := range []bool{
			object.IsHeadless(test.svc), object.NeedsClusterIP(test.svc), spec.AllowsNodePorts(test.svc), spec.NeedsNodePorts(test.svc),
			spec.NeedsHealthCheckNodePort(test.svc), spec.ExternallyAccessible(test.svc),
		} {
			if holds {
				got[i] = "HIANCX"[i]
			}
		}
		if string(got) != test.want {
			t.Errorf("%v: got %s, want %s", test.svc.Spec, got, test.want)
		}
	}
}

func TestLoadBalancerSourceRanges(t *testing.T) {
	for _, test := range []struct {
		svc  *corev1.Service
		want string
	}{
		{web(), "[] []"},
		{web(sourceRanges(" 10.1.2.3/8 ", "nonsense", "fd00::/8")), "[10.0.0.0/8 fd00::/8] [nonsense]"},
		{web(annotate(object.AnnotationSourceRanges, "10.0.0.0/8 , 192.0.2.0/24")), "[10.0.0.0/8 192.0.2.0/24] []"},
		{web(annotate(object.AnnotationSourceRanges, "10.0.0.0/8"), sourceRanges("192.0.2.0/24")), "[192.0.2.0/24] []"},
		{web(annotate(object.AnnotationSourceRanges, " ")), "[] []"},
	} {
		if got := fmt.Sprint(spec.LoadBalancerSourceRanges(test.svc)); got != test.want {
			t.Errorf("got %s, want %s", got, test.want)
		}
	}
}

func TestWarnings(t *testing.T) {
	for _, test := range []struct {
		svc  *corev1.Service
		want []string // beginnings of the warnings
	}{
		{web(), nil},
		{web(ofType(loadBalancer), withSpec(func(s *corev1.ServiceSpec) { s.LoadBalancerIp = "192.0.2.1" })), []string{"spec.loadBalancerIP is deprecated"}},
		{web(withSpec(func(s *corev1.ServiceSpec) { s.LoadBalancerIp = "192.0.2.1" })), []string{"spec.loadBalancerIP is deprecated", "spec.loadBalancerIP means nothing"}},
		{web(ofType(externalName), withSpec(func(s *corev1.ServiceSpec) { s.ExternalName = "192.0.2.1" })), []string{"spec.ports means nothing", "spec.externalName \"192.0.2.1\" is an address"}},
		{web(headless, affinity(10)), []string{"spec.sessionAffinity means nothing"}},
		{web(headless, byHand), []string{"spec.ports[0].targetPort means nothing"}},
		{web(headless, byHand, target(number(80))), nil},
		{web(ofType(loadBalancer), class(balancer.ClassEdge), externalPolicy(local), annotate(aws+"type", "nlb"), annotate(edge+"tls-certs", "web")), []string{
			"spec.externalTrafficPolicy Local is about node ports only", "metadata.annotations[" + aws + "type]: the edge ends connections",
			"metadata.annotations[" + edge + "tls-certs]: is unknown, and nothing acts on it: did you mean " + edge + "tls-cert?",
		}},
		{web(ofType(loadBalancer), externalPolicy(local), annotate(edge+"check-path", "/"), annotate(edge+"internal", "true"), annotate(edge+"pool", "x"), annotate(aws+"type", "nlb")), []string{
			"metadata.annotations[" + edge + "check-path]: has no effect: the class of the load balancer is portolan.dev/pool: use the class portolan.dev/edge", "metadata.annotations[" + aws + "type]: has no effect",
		}},
		{web(ofType(loadBalancer), class("example.com/lb"), annotate(edge+"check-path", "/"), annotate(aws+"anything", "x"), annotate(edge+"colour", "blue")), []string{
			"metadata.annotations[" + edge + "colour]: is unknown",
		}},
		{web(annotate(edge+"colour", "blue")), nil},
	} {
		spec.DefaultService(test.svc)
		got := kinds.Of(test.svc).Warnings(test.svc)
		if !slices.EqualFunc(got, test.want, strings.HasPrefix) {
			t.Errorf("%v: got %q, want %q", test.svc.Spec, got, test.want)
		}
	}
}
