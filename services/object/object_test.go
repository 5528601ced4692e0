package object_test

import (
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
