package packing

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

func ptr[T any](v T) *T { return &v }

func webService(change ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{
		Metadata: &corev1.ObjectMeta{Name: "web", Namespace: "default", Uid: "svc"},
		Spec: &corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"}, ClusterIp: "10.96.0.1", IpFamilies: []corev1.IPFamily{corev1.IPFamily_IP_FAMILY_IPV4},
			Ports: []*corev1.ServicePort{{Name: "http", Port: 80, TargetPort: &corev1.IntOrString{Value: &corev1.IntOrString_Number{Number: 9376}}}},
		},
	}
	for _, c := range change {
		c(svc)
	}
	return svc
}

func webPod(name, ip string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		Metadata: &corev1.ObjectMeta{Name: name, Namespace: "default", Uid: "uid-" + name, Labels: map[string]string{"app": "web"}},
		Spec:     &corev1.PodSpec{NodeName: "n1"},
		Status: &corev1.PodStatus{Phase: corev1.PodPhase_POD_PHASE_RUNNING, PodIp: ip, Conditions: []*corev1.Condition{
			{Type: "Ready", Status: corev1.ConditionStatus_CONDITION_STATUS_TRUE},
		}},
	}
	for _, c := range change {
		c(pod)
	}
	return pod
}

func terminating(p *corev1.Pod) { p.Metadata.DeletionTimestamp = timestamppb.New(time.Unix(1, 0)) }

func notReady(p *corev1.Pod) {
	p.Status.Conditions[0].Status = corev1.ConditionStatus_CONDITION_STATUS_FALSE
	p.Status.Conditions[0].Message = "the probe fails"
}

func onNode(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = name } }

func phase(ph corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = ph }
}

func publishNotReady(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true }

func hostNetwork(p *corev1.Pod) { p.Spec.HostNetwork = true }

func headless(s *corev1.Service) { s.Spec.ClusterIp = "None" }

func namedTarget(name string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.Spec.Ports[0].TargetPort = &corev1.IntOrString{Value: &corev1.IntOrString_Name{Name: name}}
	}
}

func testNodes(name string) (Node, bool) {
	n, ok := map[string]Node{"host": NodeOf(&corev1.Node{Status: &corev1.NodeStatus{Addresses: []*corev1.NodeAddress{
		{Type: "Hostname", Address: "host"}, {Type: "ExternalIP", Address: "198.51.100.7"}, {Type: "InternalIP", Address: "192.0.2.7"},
		{Type: "InternalIP", Address: "192.0.2.8"}, {Type: "InternalIP", Address: "2001:db8::7"},
	}}}), "n1": {Zone: "a", Ready: true}, "n2": {Zone: "b", Ready: true}, "sick": {Zone: "a"}}[name]
	return n, ok
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name                     string
		svc                      *corev1.Service
		pod                      *corev1.Pod
		selected, serving, ready bool
		reason                   string
	}{
		{"ready", webService(), webPod("p", "10.0.0.1"), true, true, true, "is ready"},
		{"other label", webService(), webPod("p", "10.0.0.1", func(p *corev1.Pod) { p.Metadata.Labels["app"] = "api" }), false, false, false, `label app is "api", wanted "web"`},
		{"no label", webService(), webPod("p", "10.0.0.1", func(p *corev1.Pod) { p.Metadata.Labels = nil }), false, false, false, `has no label app, wanted "web"`},
		{"succeeded", webService(), webPod("p", "10.0.0.1", phase(corev1.PodPhase_POD_PHASE_SUCCEEDED)), false, false, false, "has ended (Succeeded)"},
		{"failed", webService(publishNotReady), webPod("p", "10.0.0.1", phase(corev1.PodPhase_POD_PHASE_FAILED)), false, false, false, "has ended (Failed)"},
		{"no address", webService(), webPod("p", ""), false, false, false, "has no address yet"},
		{"other family", webService(), webPod("p", "fd00::1"), false, false, false, "has no address of the service's families"},
		{"unknown node", webService(), webPod("p", "10.0.0.1", onNode("ghost")), false, false, false, `its node "ghost" is not registered`},
		{"unknown node, published", webService(publishNotReady), webPod("p", "10.0.0.1", onNode("ghost")), true, true, true, "is ready"},
		{"no node", webService(), webPod("p", "10.0.0.1", onNode("")), true, true, true, "is ready"},
		{"sick node", webService(), webPod("p", "10.0.0.1", onNode("sick")), true, false, false, `its node "sick" is not ready`},
		{"not ready", webService(), webPod("p", "10.0.0.1", notReady), true, false, false, "is not ready: the probe fails"},
		{"not ready, published", webService(publishNotReady), webPod("p", "10.0.0.1", notReady), true, false, true,
			"is not ready: the probe fails; published all the same (publishNotReadyAddresses)"},
		{"terminating", webService(), webPod("p", "10.0.0.1", terminating), true, true, false, "is terminating"},
		{"terminating, published", webService(publishNotReady), webPod("p", "10.0.0.1", terminating), true, true, true,
			"is terminating; published all the same (publishNotReadyAddresses)"},
		{"terminating and not ready", webService(), webPod("p", "10.0.0.1", terminating, notReady), true, false, false, "is not ready: the probe fails"},
		{"closed gate", webService(), webPod("p", "10.0.0.1", func(p *corev1.Pod) {
			p.Spec.ReadinessGates = []*corev1.PodReadinessGate{{ConditionType: "example.com/lb"}}
		}), true, false, false, `its readiness gate "example.com/lb" is not open`},
		{"no port", webService(func(s *corev1.Service) {
			s.Spec.Ports[0].TargetPort = &corev1.IntOrString{Value: &corev1.IntOrString_Name{Name: "web"}}
		}), webPod("p", "10.0.0.1"), false, false, false, "has none of the service's ports"},
	} {
		v := EvaluatePod(c.svc, c.pod, testNodes)
		if v.Selected != c.selected || v.Serving != c.serving || v.Ready != c.ready || v.Reason != c.reason {
			t.Errorf("%s: selected %v serving %v ready %v %q; want %v %v %v %q", c.name, v.Selected, v.Serving, v.Ready, v.Reason, c.selected, c.serving, c.ready, c.reason)
		}
	}
}

func evaluatePods(svc *corev1.Service, pods ...*corev1.Pod) []*PodVerdict {
	var verdicts []*PodVerdict
	for _, p := range pods {
		verdicts = append(verdicts, evaluate(svc, newPortResolver(svc), p, testNodes, nil))
	}
	return verdicts
}

func want(svc *corev1.Service, pods ...*corev1.Pod) DesiredSlices {
	return SlicesFromPods(svc, evaluatePods(svc, pods...), DefaultMaxPerSlice)
}

// lines describes groups: "IPv4 http/9376: 10.0.0.1 10.0.0.2".
func lines(w DesiredSlices) []string {
	var all []string
	for _, g := range w.Groups {
		var ports, addresses []string
		for _, p := range g.Ports {
			ports = append(ports, fmt.Sprintf("%s/%d", p.GetName(), p.GetPort()))
		}
		for _, ep := range g.Endpoints {
			addresses = append(addresses, ep.GetAddresses()[0])
		}
		all = append(all, strings.TrimPrefix(g.AddressType.String(), "ADDRESS_TYPE_")+" "+strings.Join(ports, ",")+": "+strings.Join(addresses, " "))
	}
	return all
}

func wantLines(t *testing.T, what string, w DesiredSlices, expect ...string) {
	t.Helper()
	if got := lines(w); !slices.Equal(got, expect) {
		t.Errorf("%s: %q, want %q", what, got, expect)
	}
}

func container(ports ...*corev1.ContainerPort) *corev1.Container {
	return &corev1.Container{Ports: ports}
}

func TestTargetPortsAreResolvedInEachPod(t *testing.T) {
	named := func(name string, port int32, target string, proto corev1.Protocol) *corev1.ServicePort {
		return &corev1.ServicePort{Name: name, Port: port, Protocol: proto, TargetPort: &corev1.IntOrString{Value: &corev1.IntOrString_Name{Name: target}}}
	}
	tcp, udp := corev1.Protocol_PROTOCOL_TCP, corev1.Protocol_PROTOCOL_UDP
	svc := webService(func(s *corev1.Service) {
		s.Spec.Ports = []*corev1.ServicePort{named("http", 80, "web", tcp), named("dns", 53, "dns", udp), {Name: "plain", Port: 7}}
	})
	pods := []*corev1.Pod{
		webPod("a", "10.0.0.1", func(p *corev1.Pod) {
			p.Spec.Containers = []*corev1.Container{container(&corev1.ContainerPort{Name: "web", ContainerPort: 8080}, &corev1.ContainerPort{Name: "dns", ContainerPort: 53, Protocol: tcp})}
		}),
		webPod("b", "10.0.0.2", func(p *corev1.Pod) {
			p.Spec.Containers = []*corev1.Container{container(), container(&corev1.ContainerPort{Name: "web", ContainerPort: 9090})}
		}),
		webPod("c", "10.0.0.3", func(p *corev1.Pod) { // a sidecar counts, an init container does not
			p.Spec.InitContainers = []*corev1.Container{
				container(&corev1.ContainerPort{Name: "dns", ContainerPort: 1, Protocol: udp}),
				{RestartPolicy: ptr("Always"), Ports: []*corev1.ContainerPort{{Name: "web", ContainerPort: 8080}, {Name: "dns", ContainerPort: 5353, Protocol: udp}}},
			}
		}),
		webPod("d", "10.0.0.4", func(p *corev1.Pod) {
			p.Spec.Containers = []*corev1.Container{container(&corev1.ContainerPort{Name: "web", ContainerPort: 8080, Protocol: tcp})}
		}),
	}
	wantLines(t, "groups", want(svc, pods...),
		"IPV4 http/8080,dns/5353,plain/7: 10.0.0.3",
		"IPV4 http/8080,plain/7: 10.0.0.1 10.0.0.4",
		"IPV4 http/9090,plain/7: 10.0.0.2",
	)
	v := EvaluatePod(svc, pods[0], testNodes)
	if !slices.Equal(v.Unresolved, []string{`dns: no container port of the name "dns" and protocol UDP`}) {
		t.Errorf("unresolved %q", v.Unresolved)
	}
	wantLines(t, "headless without ports", want(webService(func(s *corev1.Service) { s.Spec.ClusterIp, s.Spec.Ports = "None", nil }), pods[0]), "IPV4 : 10.0.0.1")
}

func TestFamiliesHaveSlicesOfTheirOwn(t *testing.T) {
	dual := func(ips ...string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.PodIps = ips }
	}
	svc := webService(func(s *corev1.Service) {
		s.Spec.IpFamilies = []corev1.IPFamily{corev1.IPFamily_IP_FAMILY_IPV6, corev1.IPFamily_IP_FAMILY_IPV4}
	})
	w := want(svc, webPod("a", "", dual("10.0.0.1", "fd00::1")), webPod("b", "", dual("fd00::2")))
	wantLines(t, "groups", w, "IPV4 http/9376: 10.0.0.1", "IPV6 http/9376: fd00::1 fd00::2")

	six := Pack(w, nil)
	for i, s := range six.Create {
		s.Metadata.Name = fmt.Sprint("s", i)
	}
	single := Pack(want(webService(), webPod("a", "10.0.0.1")), six.Create)
	if len(single.Delete) != 1 || single.Delete[0].GetAddressType() != corev1.AddressType_ADDRESS_TYPE_IPV6 {
		t.Errorf("slices of a family that is no longer wanted: %v", single)
	}
}

func TestEndpointFields(t *testing.T) {
	svc := webService(func(s *corev1.Service) {
		s.Spec.TrafficDistribution = corev1.TrafficDistribution_TRAFFIC_DISTRIBUTION_PREFER_SAME_NODE
	})
	pod := webPod("p", "10.0.0.1", func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain, p.Spec.Weight = "first", "web", ptr(uint32(7)) })
	got := want(svc, pod).Groups[0].Endpoints[0]
	expect := &corev1.Endpoint{
		Addresses: []string{"10.0.0.1"}, Hostname: ptr("first"), NodeName: ptr("n1"), Zone: ptr("a"), Weight: ptr(uint32(7)),
		Conditions: &corev1.EndpointConditions{Ready: ptr(true), Serving: ptr(true), Terminating: ptr(false)},
		TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "p", Uid: "uid-p"},
		Hints:      &corev1.EndpointHints{ForZones: []*corev1.ForZone{{Name: "a"}}, ForNodes: []*corev1.ForNode{{Name: "n1"}}},
	}
	if !got.EqualVT(expect) {
		t.Errorf("endpoint %v, want %v", got, expect)
	}
	for name, change := range map[string]func(*corev1.Pod){
		"other subdomain": func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "first", "api" },
		"no hostname":     func(p *corev1.Pod) { p.Spec.Subdomain = "web" },
	} {
		if ep := want(svc, webPod("p", "10.0.0.1", change)).Groups[0].Endpoints[0]; ep.Hostname != nil {
			t.Errorf("%s: hostname %q", name, ep.GetHostname())
		}
	}
}

func TestHints(t *testing.T) {
	for _, c := range []struct {
		distribution corev1.TrafficDistribution
		pod          *corev1.Pod
		want         string
	}{
		{corev1.TrafficDistribution_TRAFFIC_DISTRIBUTION_UNSPECIFIED, webPod("p", "10.0.0.1"), ""},
		{corev1.TrafficDistribution_TRAFFIC_DISTRIBUTION_PREFER_CLOSE, webPod("p", "10.0.0.1"), "a"},
		{corev1.TrafficDistribution_TRAFFIC_DISTRIBUTION_PREFER_SAME_ZONE, webPod("p", "10.0.0.1", onNode("n2")), "b"},
		{corev1.TrafficDistribution_TRAFFIC_DISTRIBUTION_PREFER_SAME_ZONE, webPod("p", "10.0.0.1", notReady), ""},
		{corev1.TrafficDistribution_TRAFFIC_DISTRIBUTION_PREFER_SAME_ZONE, webPod("p", "10.0.0.1", onNode("")), ""},
		{corev1.TrafficDistribution_TRAFFIC_DISTRIBUTION_PREFER_SAME_NODE, webPod("p", "10.0.0.1"), "a n1"},
	} {
		svc := webService(func(s *corev1.Service) { s.Spec.TrafficDistribution = c.distribution })
		h := want(svc, c.pod).Groups[0].Endpoints[0].GetHints()
		var got []string
		for _, z := range h.GetForZones() {
			got = append(got, z.GetName())
		}
		for _, n := range h.GetForNodes() {
			got = append(got, n.GetName())
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%v on %q: hints %q, want %q", c.distribution, c.pod.GetSpec().GetNodeName(), got, c.want)
		}
	}
}

func TestSliceMetadata(t *testing.T) {
	svc := webService(func(s *corev1.Service) {
		s.Metadata.Labels = map[string]string{"tier": "front", object.LabelManagedBy: "me", object.LabelHeadless: "x", object.LabelServiceName: "y"}
	})
	w := want(svc)
	w.Template.Trigger = "2026-01-01T00:00:00Z"
	s := Pack(w, nil).Create[0]
	labels := map[string]string{"tier": "front", object.LabelManagedBy: object.ManagedByController, object.LabelServiceName: "web"}
	if !maps.Equal(s.GetMetadata().GetLabels(), labels) || s.GetMetadata().GetGenerateName() != "web-" || s.GetMetadata().GetNamespace() != "default" {
		t.Errorf("metadata %v", s.GetMetadata())
	}
	if !maps.Equal(s.GetMetadata().GetAnnotations(), map[string]string{AnnotationTrigger: "2026-01-01T00:00:00Z"}) {
		t.Errorf("annotations %v", s.GetMetadata().GetAnnotations())
	}
	owner := &corev1.OwnerReference{ApiVersion: "v1", Kind: "Service", Name: "web", Uid: "svc", Controller: ptr(true), BlockOwnerDeletion: ptr(true)}
	if refs := s.GetMetadata().GetOwnerReferences(); len(refs) != 1 || !refs[0].EqualVT(owner) {
		t.Errorf("owners %v", refs)
	}
	if len(s.GetEndpoints()) != 0 || len(s.GetPorts()) != 0 {
		t.Errorf("a placeholder has contents: %v", s)
	}

	s.Metadata.Name = "web-1"
	s.Metadata.Annotations["example.com/note"] = "kept"
	if p := Pack(want(svc), []*corev1.EndpointSlice{s}); !p.Empty() {
		t.Errorf("a trigger alone is written: %v", p)
	}
	svc.Spec.ClusterIp = "None"
	p := Pack(want(svc), []*corev1.EndpointSlice{s})
	if len(p.Update) != 1 {
		t.Fatalf("the label of a headless service is not written: %v", p)
	}
	labels[object.LabelHeadless] = ""
	if meta := p.Update[0].GetMetadata(); !maps.Equal(meta.GetLabels(), labels) || !maps.Equal(meta.GetAnnotations(), map[string]string{"example.com/note": "kept"}) {
		t.Errorf("after the change %v", meta)
	}
}

func TestAPodOfTheHostNetworkHasTheAddressesOfItsNode(t *testing.T) {
	hostIP := func(ip string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Status.HostIp = ip } }
	for _, c := range []struct {
		name string
		pod  *corev1.Pod
		want string
	}{
		{"of the node", webPod("p", "", hostNetwork, onNode("host")), "[192.0.2.7 2001:db8::7]"},
		{"instead of its own", webPod("p", "10.0.0.1", hostNetwork, onNode("host"), hostIP("192.0.2.9")), "[192.0.2.7 2001:db8::7]"},
		{"of a node that has none", webPod("p", "10.0.0.1", hostNetwork, hostIP("192.0.2.9")), "[192.0.2.9]"},
		{"reported", webPod("p", "10.0.0.1", hostNetwork), "[10.0.0.1]"},
		{"of another pod", webPod("p", "10.0.0.1", onNode("host")), "[10.0.0.1]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := EvaluatePod(webService(), c.pod, testNodes)
			if got := fmt.Sprint(v.Addresses); !v.Selected || got != c.want {
				t.Errorf("addresses %s, selected %v (%s); want %s", got, v.Selected, v.Reason, c.want)
			}
		})
	}
}

func TestAHeadlessServiceKeepsPodsWithoutItsPorts(t *testing.T) {
	pods := []*corev1.Pod{webPod("p", "10.0.0.1")} // has no port of that name
	for name, c := range map[string]struct {
		svc       *corev1.Service
		endpoints int
	}{
		"headless":   {webService(namedTarget("web"), headless), 1},
		"virtual IP": {webService(namedTarget("web")), 0},
	} {
		t.Run(name, func(t *testing.T) {
			verdicts := EvaluatePods(c.svc, pods, testNodes, nil)
			if n := len(verdicts[0].Unresolved); n != 1 {
				t.Errorf("%d ports are unresolved, want 1", n)
			}
			n := 0
			for _, g := range SlicesFromPods(c.svc, verdicts, 0).Groups {
				if len(g.Ports) > 0 {
					t.Errorf("ports %v", g.Ports)
				}
				n += len(g.Endpoints)
			}
			if n != c.endpoints {
				t.Errorf("%d endpoints, want %d", n, c.endpoints)
			}
			if subsets := EndpointsFromPods(c.svc, verdicts, "", nil).GetSubsets(); len(subsets) != 0 { // as in Kubernetes
				t.Errorf("the Endpoints has %v, want nothing", subsets)
			}
		})
	}
}

func TestTopologyModeAutoGetsHints(t *testing.T) {
	for key, value := range map[string]string{"topology-mode": "Auto", "topology-aware-hints": "auto"} {
		svc := webService(func(s *corev1.Service) {
			s.Metadata.Annotations = map[string]string{"service.kubernetes.io/" + key: value}
		})
		verdicts := EvaluatePods(svc, []*corev1.Pod{webPod("p", "10.0.0.1"), webPod("q", "10.0.0.2", onNode("n2"))}, testNodes, nil)
		var got []string
		for _, ep := range SlicesFromPods(svc, verdicts, 0).Groups[0].Endpoints {
			for _, zone := range ep.GetHints().GetForZones() {
				got = append(got, zone.GetName())
			}
		}
		if !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("%s: hints for zones %q, want a and b", key, got)
		}
	}
}
