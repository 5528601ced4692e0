package kinds_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	corev1 "portolan.dev/api/core/v1"
	_ "portolan.dev/api/registry/v1"
	"portolan.dev/services/kinds"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// TestTableMatchesTheContract checks that the table and the envelope of the contract list the same
// kinds, and that each kind's service has the methods of its row and no others.
func TestTableMatchesTheContract(t *testing.T) {
	fields := (&corev1.Object{}).ProtoReflect().Descriptor().Oneofs().ByName("kind").Fields()
	if fields.Len() != len(kinds.All) {
		t.Fatalf("the envelope has %d kinds, the table has %d", fields.Len(), len(kinds.All))
	}
	for _, kind := range kinds.All {
		t.Run(kind.Name, func(t *testing.T) {
			o := kind.New()
			object.MetaOf(o).Name = "x"
			if got := object.KindOf(o); got != kind.Name {
				t.Errorf("KindOf = %q", got)
			}
			if kinds.Of(o) != kind {
				t.Errorf("Of(o) = %v", kinds.Of(o))
			}
			if back := object.Unwrap(object.Wrap(o)); back != o {
				t.Errorf("Unwrap(Wrap(o)) = %v, want the object itself", back)
			}
			for _, name := range append([]string{kind.Name, kind.Plural}, kind.Short...) {
				if found, ok := kinds.Named(name); !ok || found != kind {
					t.Errorf("Named(%q) = %v, %v", name, found, ok)
				}
			}
			checkMethods(t, kind)
		})
	}
}

func checkMethods(t *testing.T, kind *kinds.Kind) {
	t.Helper()
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName("portolan.registry.v1." + kind.ServiceName()))
	if err != nil {
		t.Fatal(err)
	}
	methods, count := found.(protoreflect.ServiceDescriptor).Methods(), 0
	for method := range kind.Methods() {
		count++
		if methods.ByName(protoreflect.Name(method)) == nil {
			t.Errorf("%s has no method %s", found.FullName(), method)
		}
	}
	if methods.Len() != count {
		t.Errorf("%s has %d methods, the row has %d", found.FullName(), methods.Len(), count)
	}
}

// TestEmptyObjects checks that the functions of every kind accept an object without any field, and
// report that its name is missing.
func TestEmptyObjects(t *testing.T) {
	for _, kind := range kinds.All {
		o := kind.New()
		kind.PrepareCreate(o)
		kind.Default(o)
		if kind.Namespaced != (o.GetMetadata().GetNamespace() == object.DefaultNamespace) {
			t.Errorf("%s: namespace %q", kind.Name, o.GetMetadata().GetNamespace())
		}
		if found := kind.Validate(o, spec.Rules{}); len(found) == 0 || found[0].Field != "metadata.name" {
			t.Errorf("%s: %v", kind.Name, found)
		}
		old := kind.New()
		object.MetaOf(old)
		kind.PrepareUpdate(o, old)
		kind.PrepareStatusUpdate(o, old)
		kind.ValidateUpdate(o, old, spec.Rules{})
		kind.ValidateStatus(o, spec.Rules{})
		if _, err := kind.ParseFieldSelector("metadata.name=x"); err != nil {
			t.Errorf("%s: %v", kind.Name, err)
		}
	}
}

func TestUnknownNames(t *testing.T) {
	for _, name := range []string{"", "deployment", "portolan.core.v1.Lease"} {
		if kind, ok := kinds.Named(name); ok {
			t.Errorf("Named(%q) = %v", name, kind)
		}
	}
	if kind, ok := kinds.Named("SERVICES"); !ok || !strings.EqualFold(kind.Plural, "SERVICES") {
		t.Errorf("case matters: %v", kind)
	}
}
