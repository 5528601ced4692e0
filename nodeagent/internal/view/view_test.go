package view_test

import (
	"fmt"
	"path/filepath"
	"testing"

	corev1 "portolan.dev/api/core/v1"

	"portolan.dev/nodeagent/internal/view"
	"portolan.dev/services/balancer"
	"portolan.dev/services/changes"
	"portolan.dev/services/object"
)

func put(old, now object.Object) changes.Change {
	return changes.Change{Kind: object.KindOf(now), Key: object.KeyOf(now), Old: old, New: now}
}

// edgeService returns a service with a load-balancer address that edges serve.
func edgeService(name, addr string) *corev1.Service {
	class, mode := balancer.ClassEdge, corev1.IPMode_IP_MODE_PROXY
	return &corev1.Service{
		Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name},
		Spec:     &corev1.ServiceSpec{Type: corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, LoadBalancerClass: &class},
		Status:   &corev1.ServiceStatus{LoadBalancer: &corev1.LoadBalancerStatus{Ingress: []*corev1.LoadBalancerIngress{{Ip: addr, IpMode: mode}}}},
	}
}

// TestChangedKinds checks the result of Apply, and that pods and nodes of other machines are ignored.
func TestChangedKinds(t *testing.T) {
	v := view.New("here", nil)
	pod := func(node string) *corev1.Pod {
		return &corev1.Pod{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: "p"}, Spec: &corev1.PodSpec{NodeName: node}}
	}
	node := func(name string) *corev1.Node { return &corev1.Node{Metadata: &corev1.ObjectMeta{Name: name}} }
	web, plain := edgeService("web", "192.0.2.1"), &corev1.Service{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: "plain"}}
	for i, tc := range []struct {
		what   string
		change changes.Change
		want   view.ChangedKinds
	}{
		{"the snapshot", put(nil, plain), view.ChangedKinds{Pods: true, Node: true, Edge: true}},
		{"a service without an edge", put(plain, plain), view.ChangedKinds{}},
		{"a service with an edge", put(nil, web), view.ChangedKinds{Edge: true}},
		{"another node's pod", put(nil, pod("there")), view.ChangedKinds{}},
		{"a pod that comes here", put(pod("there"), pod("here")), view.ChangedKinds{Pods: true}},
		{"another node", put(nil, node("there")), view.ChangedKinds{}},
		{"this node", put(nil, node("here")), view.ChangedKinds{Node: true}},
	} {
		if got := v.Apply([]changes.Change{tc.change}, uint64(i+1)); got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.what, got, tc.want)
		}
	}
	if addrs, live := v.EdgeAddresses(); fmt.Sprint(addrs) != "map[192.0.2.1:true]" || !live {
		t.Errorf("addresses of edges %v, live %t", addrs, live)
	}
	if got := v.Apply([]changes.Change{{Kind: "Service", Key: object.KeyOf(web), Old: web}}, 100); !got.Edge {
		t.Error("the end of a service with an edge was not reported")
	}
}

// TestAddressesFromTheDiskAreNotLive checks that a view from the disk says so of its addresses.
func TestAddressesFromTheDiskAreNotLive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "view.pb")
	v := view.New("here", nil)
	v.Apply([]changes.Change{put(nil, edgeService("web", "192.0.2.1"))}, 1)
	if err := v.Save(path); err != nil {
		t.Fatal(err)
	}
	loaded := view.New("here", nil)
	if _, _, err := loaded.Load(path); err != nil {
		t.Fatal(err)
	}
	if addrs, live := loaded.EdgeAddresses(); len(addrs) != 1 || live {
		t.Errorf("addresses of edges %v, live %t", addrs, live)
	}
}
