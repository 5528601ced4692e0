package spec_test

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kinds"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// TestTypeChangeMatrix changes every type to every other type, once with a manifest that has only
// the needed fields and once with the stored object and a new type. In both cases the allocated
// values of the old type are kept or cleared as the new type requires.
func TestTypeChangeMatrix(t *testing.T) {
	types := []corev1.ServiceType{clusterIP, nodePort, loadBalancer, externalName}
	for _, from := range types {
		for _, to := range types {
			t.Run(spec.EnumName(from)+" to "+spec.EnumName(to), func(t *testing.T) {
				old := stored(t, dualStack, ofType(from))
				inPlace := object.Clone(old)
				ofType(to)(inPlace)
				for how, svc := range map[string]*corev1.Service{"manifest": web(ofType(to)), "in place": inPlace} {
					expect(t, admitUpdate(svc, old, dualStack))
					checkTypeChange(t, how, svc, old)
				}
			})
		}
	}
}

func checkTypeChange(t *testing.T, how string, svc, old *corev1.Service) {
	t.Helper()
	wantIP, wantPort := "", int32(0)
	if !object.IsExternalName(svc) {
		wantIP = old.Spec.ClusterIp
	}
	if spec.AllowsNodePorts(svc) {
		wantPort = old.Spec.Ports[0].NodePort
	}
	if got := svc.Spec; got.ClusterIp != wantIP || got.Ports[0].NodePort != wantPort {
		t.Errorf("%s: clusterIP %q, nodePort %d, want %q, %d", how, got.ClusterIp, got.Ports[0].NodePort, wantIP, wantPort)
	}
	if object.IsExternalName(svc) != (len(svc.Spec.IpFamilies) == 0) || object.IsExternalName(svc) != (svc.Spec.IpFamilyPolicy == 0) {
		t.Errorf("%s: families %v, policy %v", how, svc.Spec.IpFamilies, svc.Spec.IpFamilyPolicy)
	}
}

// TestTypeChangeKeepsWhatTheClientChanged checks that values that the client changed itself are
// refused, not cleared.
func TestTypeChangeKeepsWhatTheClientChanged(t *testing.T) {
	old := stored(t, dualStack, ofType(loadBalancer), externalPolicy(local), class("internal-vip"))
	svc := object.Clone(old)
	svc.Spec.Type = clusterIP
	svc.Spec.Ports[0].NodePort++
	svc.Spec.HealthCheckNodePort++
	svc.Spec.AllocateLoadBalancerNodePorts = proto.Bool(false)
	svc.Spec.LoadBalancerClass = proto.String("other")
	svc.Spec.ExternalTrafficPolicy = cluster
	expect(t, admitUpdate(svc, old, dualStack), "spec.ports[0].nodePort FORBIDDEN", "spec.healthCheckNodePort FORBIDDEN",
		"spec.allocateLoadBalancerNodePorts FORBIDDEN", "spec.loadBalancerClass FORBIDDEN", "spec.externalTrafficPolicy FORBIDDEN")

	svc = object.Clone(old)
	svc.Spec.Type, svc.Spec.ExternalName = externalName, "db.example.com"
	onIP("10.96.0.77")(svc)
	families(v6)(svc)
	policy(prefer)(svc)
	expect(t, admitUpdate(svc, old, dualStack), "spec.clusterIP FORBIDDEN", "spec.clusterIPs FORBIDDEN", "spec.ipFamilies FORBIDDEN", "spec.ipFamilyPolicy FORBIDDEN")
}

func TestTypeChangeDropsWhatTheTypeNeeded(t *testing.T) {
	old := stored(t, dualStack, ofType(loadBalancer), externalPolicy(local), class("internal-vip"))
	old.Status = &corev1.ServiceStatus{LoadBalancer: &corev1.LoadBalancerStatus{Ingress: []*corev1.LoadBalancerIngress{{Ip: "192.0.2.1"}}}}
	svc := object.Clone(old)
	svc.Spec.Type = clusterIP
	expect(t, admitUpdate(svc, old, dualStack))
	s := svc.Spec
	if s.Ports[0].NodePort != 0 || s.HealthCheckNodePort != 0 || s.AllocateLoadBalancerNodePorts != nil || s.LoadBalancerClass != nil || s.ExternalTrafficPolicy != 0 {
		t.Errorf("left over: %v", s)
	}
	if len(svc.Status.GetLoadBalancer().GetIngress()) != 0 {
		t.Errorf("status is left over: %v", svc.Status)
	}
	if old.Status.LoadBalancer == nil {
		t.Error("the old object was changed")
	}
}

func TestUpdateClusterIP(t *testing.T) {
	for _, test := range []struct {
		name string
		old  []func(*corev1.Service)
		with func(*corev1.Service)
		want []string
		ip   string
	}{
		{name: "left out", with: func(*corev1.Service) {}, ip: "10.96.0.10"},
		{name: "changed", with: func(s *corev1.Service) { s.Spec.ClusterIp = "10.96.0.11" }, want: []string{"spec.clusterIPs[0] IMMUTABLE"}},
		{name: "changed in both", with: onIP("10.96.0.11"), want: []string{"spec.clusterIPs[0] IMMUTABLE"}},
		{name: "cleared with clusterIPs kept", with: func(s *corev1.Service) { s.Spec.ClusterIps = []string{"10.96.0.10"} }, ip: "10.96.0.10"},
		{name: "to headless", with: headless, want: []string{"spec.clusterIPs[0] IMMUTABLE"}},
		{name: "from headless", old: []func(*corev1.Service){headless}, with: onIP("10.96.0.10"), want: []string{"spec.clusterIPs[0] IMMUTABLE"}},
		{name: "headless left out", old: []func(*corev1.Service){headless}, with: func(*corev1.Service) {}, ip: "None"},
		{name: "another spelling", old: []func(*corev1.Service){onIP("fd00::a")}, with: onIP("FD00:0::A"), ip: "fd00::a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			old := stored(t, dualStack, test.old...)
			svc := web(test.with)
			violations := admitUpdate(svc, old, dualStack)
			expect(t, violations, test.want...)
			if len(violations) == 0 && (svc.Spec.ClusterIp != test.ip || !slices.Equal(svc.Spec.ClusterIps, []string{test.ip})) {
				t.Errorf("clusterIP %q, clusterIPs %q, want %q", svc.Spec.ClusterIp, svc.Spec.ClusterIps, test.ip)
			}
		})
	}
}

func TestUpdateNodePorts(t *testing.T) {
	never := withSpec(func(s *corev1.ServiceSpec) { s.AllocateLoadBalancerNodePorts = proto.Bool(false) })
	https := func(n int32) *corev1.ServicePort { return &corev1.ServicePort{Name: "https", Port: 443, NodePort: n} }
	dns := func(svc *corev1.Service) {
		svc.Spec.Ports = []*corev1.ServicePort{{Name: "dns", Port: 53, Protocol: udp}, {Name: "dns-tcp", Port: 53}}
	}
	sameNumber := func(svc *corev1.Service) {
		for _, p := range svc.Spec.Ports {
			p.NodePort = 30053
		}
	}
	for _, test := range []struct {
		name      string
		old, with []func(*corev1.Service)
		want      []int32
	}{
		{"by name", list(ofType(nodePort), secondPort(https(0))), list(ofType(nodePort), secondPort(https(0))), []int32{30100, 30101}},
		{"in another order", list(ofType(nodePort), secondPort(https(0))), list(ofType(nodePort), func(svc *corev1.Service) {
			svc.Spec.Ports = []*corev1.ServicePort{https(0), svc.Spec.Ports[0]}
		}), []int32{30101, 30100}},
		{"a new port", list(ofType(nodePort)), list(ofType(nodePort), secondPort(https(0))), []int32{30100, 0}},
		{"taken by another port", list(ofType(nodePort)), list(ofType(nodePort), secondPort(https(30100))), []int32{0, 30100}},
		{"changed", list(ofType(nodePort)), list(ofType(nodePort), nodePortNumber(30111)), []int32{30111}},
		{"one number for two protocols", list(ofType(nodePort), dns, sameNumber), list(ofType(nodePort), dns), []int32{30053, 30053}},
		{"allocation switched off, kept", list(ofType(loadBalancer)), list(ofType(loadBalancer), never, nodePortNumber(30100)), []int32{30100}},
		{"allocation switched off, removed", list(ofType(loadBalancer)), list(ofType(loadBalancer), never), []int32{0}},
		{"NodePort to LoadBalancer without allocation, removed", list(ofType(nodePort)), list(ofType(loadBalancer), never), []int32{0}},
	} {
		t.Run(test.name, func(t *testing.T) {
			svc := web(test.with...)
			expect(t, admitUpdate(svc, stored(t, dualStack, test.old...), dualStack))
			var got []int32
			for _, p := range svc.Spec.Ports {
				got = append(got, p.NodePort)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func list(changes ...func(*corev1.Service)) []func(*corev1.Service) { return changes }

func TestUpdateRules(t *testing.T) {
	hc := func(n int32) func(*corev1.Service) {
		return withSpec(func(s *corev1.ServiceSpec) { s.HealthCheckNodePort = n })
	}
	for _, test := range []struct {
		name      string
		old, with []func(*corev1.Service)
		want      []string
	}{
		{"class added", list(ofType(loadBalancer)), list(ofType(loadBalancer), class("a")), []string{"spec.loadBalancerClass IMMUTABLE"}},
		{"class changed", list(ofType(loadBalancer), class("a")), list(ofType(loadBalancer), class("b")), []string{"spec.loadBalancerClass IMMUTABLE"}},
		{"class removed", list(ofType(loadBalancer), class("a")), list(ofType(loadBalancer)), []string{"spec.loadBalancerClass IMMUTABLE"}},
		{"class set on becoming LoadBalancer", list(ofType(nodePort)), list(ofType(loadBalancer), class("a")), nil},
		{"healthCheckNodePort left out", list(ofType(loadBalancer), externalPolicy(local)), list(ofType(loadBalancer), externalPolicy(local)), nil},
		{"healthCheckNodePort changed", list(ofType(loadBalancer), externalPolicy(local)), list(ofType(loadBalancer), externalPolicy(local), hc(30500)), []string{"spec.healthCheckNodePort IMMUTABLE"}},
		{"leaving Local", list(ofType(loadBalancer), externalPolicy(local)), list(ofType(loadBalancer), hc(30999)), nil},
		{"coming to Local", list(ofType(loadBalancer)), list(ofType(loadBalancer), externalPolicy(local), hc(30500)), nil},
		{"selector changed", nil, list(withSpec(func(s *corev1.ServiceSpec) { s.Selector = map[string]string{"app": "other"} })), nil},
		{"selector removed", nil, list(byHand), nil},
		{"source ranges left on ClusterIP", list(ofType(loadBalancer), sourceRanges("10.0.0.0/8")), list(sourceRanges("10.0.0.0/8")), []string{"spec.loadBalancerSourceRanges FORBIDDEN"}},
		{"create rules hold", nil, list(portNamed("a_b")), []string{"spec.ports[0].name INVALID"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			expect(t, admitUpdate(web(test.with...), stored(t, dualStack, test.old...), dualStack), test.want...)
		})
	}
}

func TestUpdateToleratesOldName(t *testing.T) {
	old := stored(t, dualStack)
	old.Metadata.Name = "1-web"
	svc := web(func(svc *corev1.Service) { svc.Metadata.Name = "1-web" })
	expect(t, admitUpdate(svc, old, dualStack))
}

func TestMetaOfUpdate(t *testing.T) {
	for _, kind := range kinds.All {
		t.Run(kind.Name, func(t *testing.T) {
			old := example(kind.Name)
			expect(t, admit(old, dualStack, spec.Rules{}))
			meta := old.GetMetadata()
			meta.Uid, meta.Generation, meta.CreationTimestamp = "uid-1", 4, timestamppb.New(day)
			meta.DeletionTimestamp, meta.DeletionGracePeriodSeconds = timestamppb.New(day), proto.Int64(30)

			again := example(kind.Name)
			expect(t, admitUpdate(again, old, dualStack))
			if !object.Equal(again, old) {
				t.Errorf("an update without changes:\n got  %v\n want %v", again, old)
			}

			other := example(kind.Name)
			changed := other.GetMetadata()
			changed.Name, changed.Uid, changed.CreationTimestamp = "other", "uid-2", timestamppb.New(day.AddDate(0, 0, 1))
			changed.Finalizers = []string{"example.com/late"}
			want := []string{"metadata.name IMMUTABLE", "metadata.uid IMMUTABLE", "metadata.creationTimestamp IMMUTABLE", "metadata.finalizers[0] FORBIDDEN"}
			if event, ok := other.(*corev1.Event); ok {
				event.Metadata.Namespace, event.Regarding.Namespace = "elsewhere", "elsewhere"
				want = append(want, "metadata.namespace IMMUTABLE")
			} else if kind.Namespaced {
				changed.Namespace = "elsewhere"
				want = append(want, "metadata.namespace IMMUTABLE")
			}
			expect(t, admitUpdate(other, old, dualStack), want...)
		})
	}
}

func TestPrepareStatusUpdate(t *testing.T) {
	old := stored(t, dualStack, ofType(loadBalancer))
	report := &corev1.Service{
		Metadata: &corev1.ObjectMeta{Name: "web", ResourceVersion: 6, Labels: map[string]string{"a": "b"}},
		Spec:     &corev1.ServiceSpec{Type: clusterIP},
		Status:   &corev1.ServiceStatus{LoadBalancer: &corev1.LoadBalancerStatus{Ingress: []*corev1.LoadBalancerIngress{{Ip: "192.0.2.1"}}}},
	}
	kinds.Of(report).PrepareStatusUpdate(report, old)
	if !proto.Equal(report.Spec, old.Spec) || len(report.Metadata.Labels) != 0 || report.Metadata.ResourceVersion != 6 {
		t.Errorf("more than the status changed: %v", report)
	}
	expect(t, kinds.Of(report).ValidateStatus(report, spec.Rules{}))
}

func TestPrepareCreateClearsWhatTheRegistrySets(t *testing.T) {
	svc := web(ofType(loadBalancer))
	svc.Status = &corev1.ServiceStatus{LoadBalancer: &corev1.LoadBalancerStatus{Ingress: []*corev1.LoadBalancerIngress{{Ip: "192.0.2.127"}}}}
	svc.Metadata.Uid, svc.Metadata.ResourceVersion, svc.Metadata.Generation = "forged", 9, 9
	svc.Metadata.CreationTimestamp, svc.Metadata.DeletionTimestamp = timestamppb.New(day), timestamppb.New(day)
	expect(t, admit(svc, dualStack, spec.Rules{}))
	want := &corev1.ObjectMeta{Name: "web", Namespace: "default"}
	if !proto.Equal(svc.Metadata, want) || svc.Status != nil {
		t.Errorf("got %v, status %v", svc.Metadata, svc.Status)
	}
}

// TestAHealthCheckNodePortBecomesNoNodePort checks that an update cannot make the health-check node
// port a node port of the same service, or the reverse.
func TestAHealthCheckNodePortBecomesNoNodePort(t *testing.T) {
	old := web(ofType(loadBalancer), externalPolicy(local), func(s *corev1.Service) { s.Spec.HealthCheckNodePort, s.Spec.Ports[0].NodePort = 30500, 30501 })
	kinds.Of(old).Default(old)
	updated := web(ofType(loadBalancer), externalPolicy(local), func(s *corev1.Service) { s.Spec.HealthCheckNodePort, s.Spec.Ports[0].NodePort = 30500, 30500 })
	kinds.Of(updated).Default(updated)
	expect(t, spec.ValidateServiceUpdate(updated, old, spec.Rules{}), "spec.healthCheckNodePort INVALID")
}

func TestValidateServiceStatus(t *testing.T) {
	vip, proxy := corev1.IPMode_IP_MODE_VIP, corev1.IPMode_IP_MODE_PROXY
	for i, test := range []struct {
		serviceType corev1.ServiceType
		ingress     []*corev1.LoadBalancerIngress
		want        []string
	}{
		{loadBalancer, []*corev1.LoadBalancerIngress{{Ip: "192.0.2.1", IpMode: proxy}, {Hostname: "lb.example.com"}}, nil},
		{nodePort, []*corev1.LoadBalancerIngress{{Ip: "192.0.2.1", IpMode: vip}}, []string{"status.loadBalancer.ingress FORBIDDEN"}},
		{nodePort, []*corev1.LoadBalancerIngress{{Ip: "192.0.2.1"}}, []string{"status.loadBalancer.ingress FORBIDDEN"}},
		{loadBalancer, []*corev1.LoadBalancerIngress{{}}, []string{"status.loadBalancer.ingress[0].ip REQUIRED"}},
		{loadBalancer, []*corev1.LoadBalancerIngress{{Ip: "x", IpMode: vip}}, []string{"status.loadBalancer.ingress[0].ip INVALID"}},
		{loadBalancer, []*corev1.LoadBalancerIngress{{Ip: "192.0.2.1", IpMode: 8}}, []string{"status.loadBalancer.ingress[0].ipMode NOT_SUPPORTED"}},
		{loadBalancer, []*corev1.LoadBalancerIngress{{Hostname: "lb.example.com", IpMode: vip}}, []string{"status.loadBalancer.ingress[0].ipMode FORBIDDEN"}},
		{loadBalancer, []*corev1.LoadBalancerIngress{{Hostname: "192.0.2.1"}}, []string{"status.loadBalancer.ingress[0].hostname INVALID"}},
		{loadBalancer, []*corev1.LoadBalancerIngress{{Ip: "192.0.2.1", IpMode: vip}, {Ip: "192.0.2.1", IpMode: vip}}, []string{"status.loadBalancer.ingress[1] DUPLICATE"}},
		{loadBalancer, []*corev1.LoadBalancerIngress{{Ip: "192.0.2.1", IpMode: vip, Ports: []*corev1.PortStatus{{Port: 0, Protocol: tcp, Error: proto.String("No Good")}}}}, []string{
			"status.loadBalancer.ingress[0].ports[0].port INVALID", "status.loadBalancer.ingress[0].ports[0].error INVALID",
		}},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			svc := web(ofType(test.serviceType))
			svc.Status = &corev1.ServiceStatus{LoadBalancer: &corev1.LoadBalancerStatus{Ingress: test.ingress}}
			expect(t, spec.ValidateServiceStatus(svc, spec.Rules{}), test.want...)
		})
	}
}
