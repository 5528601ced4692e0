package apply_test

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/apply"
	"portolan.dev/services/object"
)

// now is the time of all applications of the tests.
var now = time.Unix(1, 0)

// applied returns a stored object after several manifests were applied to it, one after the other.
func applied(stored object.Object, manifests ...object.Object) object.Object {
	for _, manifest := range manifests {
		application := apply.New(manifest)
		merged := application.Merge(stored)
		object.MetaOf(merged).ManagedFields, _ = application.Applied(stored, merged, now)
		stored = merged
	}
	return stored
}

func service(spec *corev1.ServiceSpec) *corev1.Service {
	return &corev1.Service{Metadata: &corev1.ObjectMeta{Name: "web"}, Spec: spec}
}

func pod(containers ...*corev1.Container) *corev1.Pod {
	return &corev1.Pod{Metadata: &corev1.ObjectMeta{Name: "p"}, Spec: &corev1.PodSpec{Containers: containers}}
}

func TestFieldsOfListsWhatIsSet(t *testing.T) {
	got := apply.FieldsOf(&corev1.Service{
		Metadata: &corev1.ObjectMeta{
			Name: "web", Namespace: "shop", Uid: "u", ResourceVersion: 7, Labels: map[string]string{"app": "web"}, Finalizers: []string{"a/b"},
		},
		Spec: &corev1.ServiceSpec{
			Selector: map[string]string{"app": "web", "tier": "front"}, ExternalIps: []string{"192.0.2.1"},
			Ports:                         []*corev1.ServicePort{{Port: 80, TargetPort: &corev1.IntOrString{Value: &corev1.IntOrString_Name{Name: "http"}}}},
			AllocateLoadBalancerNodePorts: proto.Bool(false), Scheduler: corev1.Scheduler_SCHEDULER_LC,
		},
		Status: &corev1.ServiceStatus{LoadBalancer: &corev1.LoadBalancerStatus{Ingress: []*corev1.LoadBalancerIngress{{Ip: "192.0.2.1"}}}},
	})
	want := `{"f:metadata":{"f:annotations":{"f:portolan.dev/scheduler":{}},"f:finalizers":{"v:\"a/b\"":{}},"f:labels":{"f:app":{}}},` +
		`"f:spec":{"f:allocateLoadBalancerNodePorts":{},"f:externalIPs":{},` +
		`"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{},"f:targetPort":{}}},"f:selector":{}}}`
	if text, err := got.ToJSON(); err != nil || string(text) != want {
		t.Errorf("%v: fields\n%s, want\n%s", err, text, want)
	}
}

func TestMerge(t *testing.T) {
	number := func(n int32) *corev1.IntOrString {
		return &corev1.IntOrString{Value: &corev1.IntOrString_Number{Number: n}}
	}
	tcp := &corev1.Probe{PeriodSeconds: 5, Handler: &corev1.Probe_TcpSocket{TcpSocket: &corev1.TCPSocketAction{Port: number(80)}}}
	http := &corev1.Probe{Handler: &corev1.Probe_HttpGet{HttpGet: &corev1.HTTPGetAction{Port: number(80)}}}
	for name, c := range map[string]struct{ stored, first, second, want object.Object }{
		"a selector is one decision": {
			stored: service(&corev1.ServiceSpec{Selector: map[string]string{"by": "others"}}),
			first:  service(&corev1.ServiceSpec{Selector: map[string]string{"app": "web", "tier": "front"}}),
			second: service(&corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}),
			want:   service(&corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}),
		},
		"a port is the same with and without its protocol": {
			stored: service(&corev1.ServiceSpec{Ports: []*corev1.ServicePort{{Port: 80, Protocol: corev1.Protocol_PROTOCOL_TCP, NodePort: 30080}}}),
			first:  service(&corev1.ServiceSpec{Ports: []*corev1.ServicePort{{Port: 80, TargetPort: number(8080)}}}),
			second: service(&corev1.ServiceSpec{Ports: []*corev1.ServicePort{{Port: 80}}}),
			want:   service(&corev1.ServiceSpec{Ports: []*corev1.ServicePort{{Port: 80, Protocol: corev1.Protocol_PROTOCOL_TCP, NodePort: 30080}}}),
		},
		"ports are in the manifest's order, those of others after them": {
			stored: service(&corev1.ServiceSpec{Ports: []*corev1.ServicePort{{Port: 9}, {Port: 1}, {Port: 2}}}),
			first:  service(&corev1.ServiceSpec{Ports: []*corev1.ServicePort{{Port: 1}, {Port: 2}, {Port: 3}}}),
			second: service(&corev1.ServiceSpec{Ports: []*corev1.ServicePort{{Port: 3}, {Port: 2}}}),
			want:   service(&corev1.ServiceSpec{Ports: []*corev1.ServicePort{{Port: 3}, {Port: 2}, {Port: 9}}}),
		},
		"a port twice is left to validation": {
			stored: service(&corev1.ServiceSpec{Ports: []*corev1.ServicePort{{Port: 80}}}),
			first:  service(&corev1.ServiceSpec{Ports: []*corev1.ServicePort{{Port: 80}}}),
			second: service(&corev1.ServiceSpec{Ports: []*corev1.ServicePort{{Port: 80, Name: "a"}, {Port: 80, Name: "b"}}}),
			want:   service(&corev1.ServiceSpec{Ports: []*corev1.ServicePort{{Port: 80, Name: "a"}, {Port: 80, Name: "b"}}}),
		},
		"another kind of probe": {
			stored: pod(&corev1.Container{Name: "main"}), first: pod(&corev1.Container{Name: "main", ReadinessProbe: tcp}),
			second: pod(&corev1.Container{Name: "main", ReadinessProbe: http}), want: pod(&corev1.Container{Name: "main", ReadinessProbe: http}),
		},
		"the last field of a probe": {
			stored: pod(&corev1.Container{Name: "main"}), first: pod(&corev1.Container{Name: "main", ReadinessProbe: tcp}),
			second: pod(&corev1.Container{Name: "main"}), want: pod(&corev1.Container{Name: "main"}),
		},
		"a probe with a field of others": {
			stored: pod(&corev1.Container{Name: "main", ReadinessProbe: &corev1.Probe{TimeoutSeconds: 3}}), first: pod(&corev1.Container{Name: "main", ReadinessProbe: tcp}),
			second: pod(&corev1.Container{Name: "main"}), want: pod(&corev1.Container{Name: "main", ReadinessProbe: &corev1.Probe{TimeoutSeconds: 3}}),
		},
		"a variable of others": {
			stored: pod(&corev1.Container{Name: "main", Env: []*corev1.EnvVar{{Name: "B", Value: "others"}}}),
			first:  pod(&corev1.Container{Name: "main", Env: []*corev1.EnvVar{{Name: "A", Value: "1"}}}, &corev1.Container{Name: "side"}),
			second: pod(&corev1.Container{Name: "main"}),
			want:   pod(&corev1.Container{Name: "main", Env: []*corev1.EnvVar{{Name: "B", Value: "others"}}}),
		},
		"finalizers of others": {
			stored: &corev1.Node{Metadata: &corev1.ObjectMeta{Name: "n", Finalizers: []string{"o/1"}}},
			first:  &corev1.Node{Metadata: &corev1.ObjectMeta{Name: "n", Finalizers: []string{"m/1", "m/2"}}},
			second: &corev1.Node{Metadata: &corev1.ObjectMeta{Name: "n", Finalizers: []string{"m/2"}}},
			want:   &corev1.Node{Metadata: &corev1.ObjectMeta{Name: "n", Finalizers: []string{"o/1", "m/2"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := applied(c.stored, c.first, c.second)
			if diff := cmp.Diff(c.want, got, protocmp.Transform(), protocmp.IgnoreFields(&corev1.ObjectMeta{}, "managed_fields")); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestMergeTrimsAnItemThatAnotherManagerKeeps applies a manifest with a port and a container that another manager owns
// too, and then one without them. The items stay, because of the other manager. The fields that only the first
// manifest had set must go, also below the item. Otherwise a target port that no manifest has any more would stay for
// good, since no manager owns it.
func TestMergeTrimsAnItemThatAnotherManagerKeeps(t *testing.T) {
	number := func(n int32) *corev1.IntOrString {
		return &corev1.IntOrString{Value: &corev1.IntOrString_Number{Number: n}}
	}
	tcp := &corev1.Probe{Handler: &corev1.Probe_TcpSocket{TcpSocket: &corev1.TCPSocketAction{Port: number(80)}}}
	for name, c := range map[string]struct{ stored, first, second object.Object }{
		"a port": {
			stored: service(&corev1.ServiceSpec{Ports: []*corev1.ServicePort{{Port: 80, Protocol: corev1.Protocol_PROTOCOL_TCP, Name: "web"}}}),
			first:  service(&corev1.ServiceSpec{Ports: []*corev1.ServicePort{{Port: 80, TargetPort: number(8080)}}}),
			second: service(&corev1.ServiceSpec{}),
		},
		"a container": {
			stored: pod(&corev1.Container{Name: "main", Env: []*corev1.EnvVar{{Name: "B", Value: "others"}}}),
			first:  pod(&corev1.Container{Name: "main", Env: []*corev1.EnvVar{{Name: "A", Value: "1"}}, ReadinessProbe: tcp}),
			second: pod(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			object.MetaOf(c.stored).ManagedFields = []*corev1.ManagedFields{entry("other", apply.FieldsOf(c.stored))}
			got := applied(c.stored, c.first, c.second)
			if diff := cmp.Diff(c.stored, got, protocmp.Transform(), protocmp.IgnoreFields(&corev1.ObjectMeta{}, "managed_fields")); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestMergeIsThreeWay checks for any stored object and manifests that the merge sets all fields of
// the manifest, removes the fields that only the previous manifest had, leaves the other fields
// alone, and changes nothing if it is repeated.
func TestMergeIsThreeWay(t *testing.T) {
	labels := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), rapid.SampledFrom([]string{"1", "2", "3"}), 0, 4)
	draw := func(t *rapid.T, name string) *corev1.Service {
		return &corev1.Service{Metadata: &corev1.ObjectMeta{Name: "web", Labels: labels.Draw(t, name)}}
	}
	rapid.Check(t, func(t *rapid.T) {
		stored, first, second := draw(t, "stored"), draw(t, "first"), draw(t, "second")
		want := maps.Clone(stored.GetMetadata().GetLabels())
		maps.Copy(want, first.GetMetadata().GetLabels())
		for key := range first.GetMetadata().GetLabels() {
			delete(want, key)
		}
		maps.Copy(want, second.GetMetadata().GetLabels())
		got := applied(stored, first, second)
		if !maps.Equal(got.GetMetadata().GetLabels(), want) {
			t.Fatalf("labels %v, want %v", got.GetMetadata().GetLabels(), want)
		}
		if again := applied(got, second); !proto.Equal(again, got) {
			t.Fatalf("the same again makes %v of %v", again, got)
		}
	})
}
