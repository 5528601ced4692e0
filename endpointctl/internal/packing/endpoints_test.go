package packing

import (
	"fmt"
	"strings"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// subsets describes an Endpoints: "http/9376: 10.0.0.1 !10.0.0.2".
func subsets(e *corev1.Endpoints) string {
	var all []string
	for _, s := range e.GetSubsets() {
		var ports []string
		for _, p := range s.GetPorts() {
			ports = append(ports, fmt.Sprintf("%s/%d", p.GetName(), p.GetPort()))
		}
		line := strings.Join(ports, ",") + ":"
		for _, a := range s.GetAddresses() {
			line += " " + a.GetIp()
		}
		for _, a := range s.GetNotReadyAddresses() {
			line += " !" + a.GetIp()
		}
		all = append(all, line)
	}
	return strings.Join(all, "; ")
}

func TestLegacyEndpoints(t *testing.T) {
	pods := []*corev1.Pod{
		webPod("c", "10.0.0.3"), webPod("a", "10.0.0.1"), webPod("b", "10.0.0.2", notReady),
		webPod("d", "10.0.0.4", terminating), webPod("e", "10.0.0.5", phase(corev1.PodPhase_POD_PHASE_FAILED)),
	}
	for _, c := range []struct {
		name string
		svc  *corev1.Service
		want string
	}{
		{"plain", webService(), "http/9376: 10.0.0.1 10.0.0.3 !10.0.0.2"},
		{"published", webService(publishNotReady), "http/9376: 10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4"},
		{"no family of theirs", webService(func(s *corev1.Service) { s.Spec.IpFamilies = []corev1.IPFamily{corev1.IPFamily_IP_FAMILY_IPV6} }), ""},
	} {
		verdicts := evaluatePods(c.svc, pods...)
		e := EndpointsFromPods(c.svc, verdicts, "", nil)
		if got := subsets(e); got != c.want || e.GetMetadata().GetName() != "web" || !IsManaged(e) {
			t.Errorf("%s: %q of %v, want %q", c.name, got, e.GetMetadata(), c.want)
		}
		if again := EndpointsFromPods(c.svc, verdicts, "later", e); again != e {
			t.Errorf("%s: a second time it is %v", c.name, again)
		}
	}
}

func TestLegacyEndpointsAreTruncated(t *testing.T) {
	svc := webService()
	count := func(ready, unready int) (gotReady, gotUnready int, annotation string, e *corev1.Endpoints) {
		var pods []*corev1.Pod
		for i := range ready + unready {
			change := func(*corev1.Pod) {}
			if i >= ready {
				change = notReady
			}
			pods = append(pods, webPod(fmt.Sprintf("p%05d", i), fmt.Sprintf("10.1.%d.%d", i/250, i%250+1), change))
		}
		e = EndpointsFromPods(svc, evaluatePods(svc, pods...), "", nil)
		for _, s := range e.GetSubsets() {
			gotReady += len(s.GetAddresses())
			gotUnready += len(s.GetNotReadyAddresses())
		}
		return gotReady, gotUnready, e.GetMetadata().GetAnnotations()[AnnotationOverCapacity], e
	}
	for _, c := range []struct {
		ready, unready         int
		wantReady, wantUnready int
		truncated              string
	}{
		{1000, 0, 1000, 0, ""},
		{600, 400, 600, 400, ""},
		{1001, 0, 1000, 0, "truncated"},
		{600, 500, 600, 400, "truncated"},
		{1200, 500, 1000, 0, "truncated"},
	} {
		r, u, annotation, _ := count(c.ready, c.unready)
		if r != c.wantReady || u != c.wantUnready || annotation != c.truncated {
			t.Errorf("%d and %d: %d and %d %q, want %d and %d %q", c.ready, c.unready, r, u, annotation, c.wantReady, c.wantUnready, c.truncated)
		}
	}
	_, _, _, e := count(1001, 0)
	smaller := EndpointsFromPods(svc, evaluatePods(svc, webPod("p", "10.0.0.1")), "", e)
	if _, still := smaller.GetMetadata().GetAnnotations()[AnnotationOverCapacity]; still {
		t.Error("the annotation stays when there is room again")
	}
}

func TestTruncationIsInProportion(t *testing.T) {
	subset := func(n int) *corev1.EndpointSubset {
		return &corev1.EndpointSubset{Addresses: make([]*corev1.EndpointAddress, n)}
	}
	all := []*corev1.EndpointSubset{subset(60), subset(30), subset(1), subset(9)}
	if !truncate(all, 10) {
		t.Fatal("not truncated")
	}
	got := ""
	for _, s := range all {
		got += fmt.Sprint(len(s.GetAddresses()), " ")
	}
	if got != "7 3 0 0 " {
		t.Errorf("left %s", got)
	}
}

func TestMirror(t *testing.T) {
	e := &corev1.Endpoints{
		Metadata: &corev1.ObjectMeta{
			Name: "db", Namespace: "default", Uid: "e", Labels: map[string]string{"team": "x"},
			Annotations: map[string]string{"note": "1", AnnotationTrigger: "t", annotationLastApplied: "{}"},
		},
		Subsets: []*corev1.EndpointSubset{
			{
				Addresses:         []*corev1.EndpointAddress{{Ip: "10.0.0.1", Hostname: "one"}, {Ip: "fd00::1"}, {Ip: "nonsense"}, {Ip: "10.0.0.1", Hostname: "one"}},
				NotReadyAddresses: []*corev1.EndpointAddress{{Ip: "10.0.0.2"}},
				Ports:             []*corev1.EndpointSubsetPort{{Port: 9376}},
			},
			{Addresses: []*corev1.EndpointAddress{{Ip: "10.0.0.1"}}, Ports: []*corev1.EndpointSubsetPort{{Name: "admin", Port: 9}}},
		},
	}
	w, problems := SlicesFromEndpoints(e, nil)
	if len(problems) != 1 || problems[0].Reason != "InvalidIPAddress" {
		t.Errorf("problems %v", problems)
	}
	p := Pack(w, nil)
	if len(p.Create) != 3 {
		t.Fatalf("%d slices", len(p.Create))
	}
	s := p.Create[0]
	if len(s.GetEndpoints()) != 2 || s.GetEndpoints()[0].GetHostname() != "one" || s.GetEndpoints()[1].GetConditions().GetReady() {
		t.Errorf("slice %v", s)
	}
	meta := s.GetMetadata()
	if meta.GetLabels()["team"] != "x" || meta.GetLabels()[object.LabelServiceName] != "db" || meta.GetLabels()[object.LabelManagedBy] != object.ManagedByMirroring ||
		len(meta.GetAnnotations()) != 1 || meta.GetAnnotations()["note"] != "1" || meta.GetOwnerReferences()[0].GetKind() != "Endpoints" {
		t.Errorf("metadata %v", meta)
	}
	many := &corev1.EndpointSubset{}
	for i := range 1003 {
		many.Addresses = append(many.Addresses, &corev1.EndpointAddress{Ip: fmt.Sprintf("10.2.%d.%d", i/250, i%250+1)})
	}
	e.Subsets = []*corev1.EndpointSubset{many}
	w, problems = SlicesFromEndpoints(e, nil)
	if len(problems) != 1 || problems[0].Reason != "TooManyAddressesToMirror" || len(w.Groups[0].Endpoints) != MaxEndpoints {
		t.Errorf("of 1003 addresses %d are mirrored; problems %v", len(w.Groups[0].Endpoints), problems)
	}
}

func TestWhatIsMirrored(t *testing.T) {
	selectorless := webService(func(s *corev1.Service) { s.Spec.Selector = nil })
	plain := func(change func(*corev1.ObjectMeta)) *corev1.Endpoints {
		e := &corev1.Endpoints{Metadata: &corev1.ObjectMeta{Name: "web", Labels: map[string]string{}, Annotations: map[string]string{}}}
		change(e.Metadata)
		return e
	}
	nothing := func(*corev1.ObjectMeta) {}
	for name, c := range map[string]struct {
		svc  *corev1.Service
		e    *corev1.Endpoints
		want bool
	}{
		"without selector": {selectorless, plain(nothing), true},
		"with selector":    {webService(), plain(nothing), false},
		"no service":       {nil, plain(nothing), false},
		"no endpoints":     {selectorless, nil, false},
		"skipped":          {selectorless, plain(func(m *corev1.ObjectMeta) { m.Labels[object.LabelSkipMirror] = "true" }), false},
		"election":         {selectorless, plain(func(m *corev1.ObjectMeta) { m.Annotations[annotationLeader] = "{}" }), false},
		"ours":             {selectorless, plain(func(m *corev1.ObjectMeta) { m.Labels[object.LabelEndpointsManagedBy] = object.ManagedByEndpoints }), false},
		"ExternalName":     {webService(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceType_SERVICE_TYPE_EXTERNAL_NAME }), plain(nothing), false},
	} {
		if got := IsMirrored(c.svc, c.e); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
