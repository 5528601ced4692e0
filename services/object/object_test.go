package object_test

import (
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// TestKindsMatchTheEnvelope checks that Kinds and the envelope of the contract list the same kinds.
func TestKindsMatchTheEnvelope(t *testing.T) {
	fields := (&corev1.Object{}).ProtoReflect().Descriptor().Oneofs().ByName("kind").Fields()
	if fields.Len() != len(object.Kinds) {
		t.Fatalf("the envelope has %d kinds, Kinds has %d", fields.Len(), len(object.Kinds))
	}
	for _, kind := range object.Kinds {
		t.Run(kind.Name, func(t *testing.T) {
			o := kind.New()
			object.MetaOf(o).Name = "x"
			if got := object.KindOf(o); got != kind.Name {
				t.Errorf("KindOf = %q", got)
			}
			if back := object.Unwrap(object.Wrap(o)); back != o {
				t.Errorf("Unwrap(Wrap(o)) = %v, want the object itself", back)
			}
			hasStatus := o.ProtoReflect().Descriptor().Fields().ByName("status") != nil
			if hasStatus != kind.HasStatus {
				t.Errorf("HasStatus = %v, the message says %v", kind.HasStatus, hasStatus)
			}
			for _, name := range append([]string{kind.Name, kind.Plural}, kind.Short...) {
				if found, ok := object.KindNamed(name); !ok || found.Name != kind.Name {
					t.Errorf("KindNamed(%q) = %v, %v", name, found.Name, ok)
				}
			}
		})
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
