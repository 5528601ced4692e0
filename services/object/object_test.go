package object_test

import (
	"net/netip"
	"slices"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

func TestNew(t *testing.T) {
	if o, ok := object.New("Lease").(*corev1.Lease); !ok || o == nil {
		t.Errorf("New(Lease) = %v", o)
	}
	for _, name := range []string{"", "lease", "leases", "Deployment"} {
		if o := object.New(name); o != nil {
			t.Errorf("New(%q) = %v", name, o)
		}
	}
}

func TestUnwrapEmpty(t *testing.T) {
	if o := object.Unwrap(&corev1.Object{}); o != nil {
		t.Errorf("Unwrap of an empty envelope = %v", o)
	}
}

func TestMetaOfMakesMetadata(t *testing.T) {
	service := &corev1.Service{}
	object.MetaOf(service).Name = "web"
	if service.GetMetadata().GetName() != "web" {
		t.Errorf("metadata was not attached: %v", service)
	}
}

func TestKey(t *testing.T) {
	if got := object.NameOf(&corev1.Endpoints{Metadata: &corev1.ObjectMeta{Namespace: "a", Name: "b"}}).String(); got != "a/b" {
		t.Errorf("name = %q", got)
	}
	service := &corev1.Service{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: "web"}}
	if got := object.KeyOf(service).String(); got != "Service default/web" {
		t.Errorf("key = %q", got)
	}
	node := &corev1.Node{Metadata: &corev1.ObjectMeta{Name: "n1"}}
	if got := object.KeyOf(node).String(); got != "Node n1" {
		t.Errorf("key = %q", got)
	}
	if object.Compare(object.KeyOf(node), object.KeyOf(service)) >= 0 {
		t.Error("Node sorts before Service")
	}
}

func TestClusterIPs(t *testing.T) {
	for _, c := range []struct {
		spec     *corev1.ServiceSpec
		want     []string
		headless bool
	}{
		{nil, nil, false},
		{&corev1.ServiceSpec{ClusterIp: "10.96.0.1"}, []string{"10.96.0.1"}, false},
		{&corev1.ServiceSpec{ClusterIp: "fd00::1", ClusterIps: []string{"fd00::1", "10.96.0.1"}}, []string{"fd00::1", "10.96.0.1"}, false},
		{&corev1.ServiceSpec{ClusterIp: "None"}, []string{"None"}, true},
		{&corev1.ServiceSpec{ClusterIps: []string{"None"}}, []string{"None"}, true},
		{&corev1.ServiceSpec{ClusterIp: "None", Type: corev1.ServiceType_SERVICE_TYPE_EXTERNAL_NAME}, []string{"None"}, false},
	} {
		svc := &corev1.Service{Spec: c.spec}
		if got := object.ClusterIPs(svc); !slices.Equal(got, c.want) || object.IsHeadless(svc) != c.headless {
			t.Errorf("%v: %v, headless %v, want %v, %v", c.spec, got, object.IsHeadless(svc), c.want, c.headless)
		}
	}
}

func TestParseAddrs(t *testing.T) {
	got := object.ParseAddrs([]string{"10.0.0.1", "", "::ffff:10.0.0.1", "None", "fd00::1"})
	if want := []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
