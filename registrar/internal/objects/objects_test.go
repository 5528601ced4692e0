package objects

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registrar/source"
	"portolan.dev/services/kinds"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

var builder = Builder{Node: "n1", Owner: "registrar/n1", Namespace: "default"}

func workload(change ...func(*source.Workload)) *source.Workload {
	w := &source.Workload{
		ID: "4711", Name: "shop_web.1", Service: "web", Addresses: []string{"10.1.0.2"}, Ready: true,
		Ports: []source.Port{{Name: "http", Number: 8000, Protocol: corev1.Protocol_PROTOCOL_TCP}},
	}
	for _, c := range change {
		c(w)
	}
	return w
}

// TestPodNames checks that the name of a pod is stable, unique for each workload, and valid even for the
// longest name of a service.
func TestPodNames(t *testing.T) {
	long := strings.Repeat("a", 62) + "b"
	seen := map[object.Name]bool{}
	for _, service := range []string{"web", long} {
		for _, from := range []string{"docker", "systemd"} {
			for _, id := range []string{"1", "2"} {
				w := workload(func(w *source.Workload) { w.Service, w.ID = service, id })
				name := builder.PodName(from, w)
				if seen[name] || name != builder.PodName(from, w) {
					t.Errorf("%s is not the name of one workload", name)
				}
				seen[name] = true
				if against := spec.DNSLabel(name.Name); against != "" {
					t.Errorf("%q %s", name.Name, against)
				}
			}
		}
	}
	other := builder
	other.Node = "n2"
	if w := workload(); other.PodName("docker", w) == builder.PodName("docker", w) {
		t.Error("the same container ID on two nodes has one pod")
	}
}

// TestObjectsAreValid checks that the objects satisfy the rules of the registry.
func TestObjectsAreValid(t *testing.T) {
	weight := uint32(3)
	for name, w := range map[string]*source.Workload{
		"plain":    workload(),
		"odd name": workload(func(w *source.Workload) { w.Name = "__ÄÖ__" }),
		"everything": workload(func(w *source.Workload) {
			w.Weight, w.Drain, w.Labels = &weight, 1500*time.Millisecond, map[string]string{"tier": "front"}
		}),
		"probe": workload(func(w *source.Workload) {
			w.Probe = &corev1.Probe{Handler: &corev1.Probe_TcpSocket{TcpSocket: &corev1.TCPSocketAction{Port: &corev1.IntOrString{Value: &corev1.IntOrString_Number{Number: 8000}}}}}
		}),
		"two names": workload(func(w *source.Workload) {
			w.Ports = append(w.Ports, source.Port{Name: "web", Number: 8000, Protocol: corev1.Protocol_PROTOCOL_TCP}, source.Port{Name: "dns", Number: 8000, Protocol: corev1.Protocol_PROTOCOL_UDP})
		}),
	} {
		for _, o := range []object.Object{builder.Pod("docker", w, nil), builder.Service(w), builder.NewNamespace("shop")} {
			kind := kinds.Of(o)
			kind.Default(o)
			kind.PrepareCreate(o)
			for _, v := range kind.Validate(o, spec.Rules{}) {
				if v.Field != "spec.clusterIP" && v.Field != "spec.clusterIPs" && v.Field != "spec.ipFamilies" { // the registry allocates them
					t.Errorf("%s: %s %s: %s", name, kind.Name, v.Field, v.Message)
				}
			}
		}
	}
}

// TestPod checks the fields of a pod that the endpoint controller and node agents read. A mistake in them leaves a
// workload without traffic, or gives it traffic before it is ready.
func TestPod(t *testing.T) {
	onNode := builder
	onNode.NodeAddresses = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")}
	host := func(w *source.Workload) { w.HostNetwork, w.Addresses = true, nil }
	grace := func(d time.Duration) func(*source.Workload) { return func(w *source.Workload) { w.Drain = d } }
	probe := func(w *source.Workload) { w.Probe = &corev1.Probe{PeriodSeconds: 7} }
	dual := func(w *source.Workload) { w.Addresses = []string{"10.1.0.2", "2001:db8::2"} }
	for name, c := range map[string]struct {
		builder  Builder
		workload *source.Workload
		want     string // IP, all IPs, host IP, grace period in s, readiness gates, period of the probe in s
	}{
		"plain":                        {builder, workload(), "10.1.0.2 [10.1.0.2]  30 [" + object.ConditionSourceReady + "] 0"},
		"two families":                 {builder, workload(dual), "10.1.0.2 [10.1.0.2 2001:db8::2]  30 [" + object.ConditionSourceReady + "] 0"},
		"the node's network":           {onNode, workload(host), " [] 192.0.2.1 30 [" + object.ConditionSourceReady + "] 0"},
		"the network, address unknown": {builder, workload(host), " []  30 [" + object.ConditionSourceReady + "] 0"},
		"own network, address known":   {onNode, workload(), "10.1.0.2 [10.1.0.2]  30 [" + object.ConditionSourceReady + "] 0"},
		"a drain of 1.5 s":             {builder, workload(grace(1500 * time.Millisecond)), "10.1.0.2 [10.1.0.2]  2 [" + object.ConditionSourceReady + "] 0"},
		"a probe":                      {builder, workload(probe), "10.1.0.2 [10.1.0.2]  30 [] 7"},
	} {
		pod := c.builder.Pod("docker", c.workload, nil)
		gates := []string{}
		for _, gate := range pod.GetSpec().GetReadinessGates() {
			gates = append(gates, gate.GetConditionType())
		}
		status := pod.GetStatus()
		got := fmt.Sprintf("%s %v %s %d %v %d", status.GetPodIp(), status.GetPodIps(), status.GetHostIp(), pod.GetSpec().GetTerminationGracePeriodSeconds(), gates,
			pod.GetSpec().GetContainers()[0].GetReadinessProbe().GetPeriodSeconds())
		if got != c.want {
			t.Errorf("%s: the pod has\n%s, want\n%s", name, got, c.want)
		}
	}
}

// TestMerge checks which writes a change of a workload needs, and that Merge keeps the fields of other
// writers.
func TestMerge(t *testing.T) {
	ready := &corev1.Condition{Type: object.ConditionReady, Status: corev1.ConditionStatus_CONDITION_STATUS_TRUE}
	stored := func() *corev1.Pod {
		pod := builder.Pod("docker", workload(), nil)
		pod.Status.Conditions = []*corev1.Condition{ready}
		pod.Metadata.Finalizers = []string{"example.com/keep"}
		merged, _, _ := Merge(pod, builder.Pod("docker", workload(), nil), workload())
		return merged
	}
	service := &corev1.Service{Spec: &corev1.ServiceSpec{Selector: map[string]string{"app": "shop"}}}
	for name, one := range map[string]struct {
		workload        *source.Workload
		service         *corev1.Service
		changed, status bool
	}{
		"nothing":         {workload: workload()},
		"the address":     {workload: workload(func(w *source.Workload) { w.Addresses = []string{"10.1.0.3"} }), status: true},
		"readiness":       {workload: workload(func(w *source.Workload) { w.Ready, w.Reason = false, "starting" }), status: true},
		"the selector":    {workload: workload(), service: service, changed: true},
		"a port":          {workload: workload(func(w *source.Workload) { w.Ports[0].Number = 9000 }), changed: true},
		"a check":         {workload: workload(func(w *source.Workload) { w.Probe = &corev1.Probe{} }), changed: true},
		"only its origin": {workload: workload(func(w *source.Workload) { w.Origin = "compose project shop" })},
	} {
		merged, changed, status := Merge(stored(), builder.Pod("docker", one.workload, one.service), one.workload)
		if changed != one.changed || status != one.status {
			t.Errorf("%s: the object differs %v, want %v; the status %v, want %v", name, changed, one.changed, status, one.status)
		}
		if !object.IsReady(merged.GetStatus().GetConditions()) || len(merged.GetMetadata().GetFinalizers()) != 1 {
			t.Errorf("%s: what others wrote is lost: %v", name, merged)
		}
	}
}

// TestCheck checks the reasons why a workload is not a backend of its service.
func TestCheck(t *testing.T) {
	service := func(selector map[string]string, target string) *corev1.Service {
		return &corev1.Service{Spec: &corev1.ServiceSpec{Selector: selector, Ports: []*corev1.ServicePort{
			{Port: 80, Protocol: corev1.Protocol_PROTOCOL_TCP, TargetPort: &corev1.IntOrString{Value: &corev1.IntOrString_Name{Name: target}}},
		}}}
	}
	labelled := workload(func(w *source.Workload) { w.Labels = map[string]string{"app": "other"} })
	if found := builder.Check(workload(), service(map[string]string{"app": "shop"}, "admin")); len(found) != 1 || !strings.HasSuffix(found[0].Message, "there are http=8000/TCP") {
		t.Errorf("the problem does not name the ports that there are: %v", found)
	}
	for name, one := range map[string]struct {
		workload *source.Workload
		service  *corev1.Service
		want     string
	}{
		"good":                      {workload(), service(map[string]string{"app": "shop"}, "http"), ""},
		"none":                      {workload(), nil, ReasonNoService},
		"no selector":               {workload(), service(nil, "http"), ReasonNoSelector},
		"a port that is missing":    {workload(), service(map[string]string{"app": "shop"}, "admin"), ReasonPortMissing},
		"a label that is selected":  {labelled, service(map[string]string{"app": "shop"}, "http"), ReasonLabelConflict},
		"the label of another one":  {workload(), service(map[string]string{object.LabelService: "api"}, "http"), ReasonLabelConflict},
		"a selector with its label": {workload(), service(map[string]string{object.LabelService: "web"}, "http"), ""},
	} {
		reason := ""
		for _, p := range builder.Check(one.workload, one.service) {
			reason += p.Reason
		}
		if reason != one.want {
			t.Errorf("%s: %q, want %q", name, reason, one.want)
		}
	}
}
