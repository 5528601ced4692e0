package ownership

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/kubeapi/internal/resource"
	"portolan.dev/services/apply"
	"portolan.dev/services/kube"
	"portolan.dev/services/object"
)

// fill sets all fields of a message, each to another value.
func fill(m protoreflect.Message, n *int64) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		*n++
		switch oneof := field.ContainingOneof(); {
		case oneof != nil && !oneof.IsSynthetic() && m.WhichOneof(oneof) != nil:
		case field.IsMap():
			m.Mutable(field).Map().Set(protoreflect.ValueOfString(fmt.Sprint("k", *n)).MapKey(), protoreflect.ValueOfString("v"))
		case field.IsList() && field.Message() != nil:
			fill(m.Mutable(field).List().AppendMutable().Message(), n)
		case field.IsList():
			m.Mutable(field).List().Append(scalar(field, *n))
		case field.Message() != nil && field.Message().FullName() == "google.protobuf.Timestamp":
			m.Set(field, protoreflect.ValueOfMessage((&timestamppb.Timestamp{Seconds: *n}).ProtoReflect()))
		case field.Message() != nil:
			fill(m.Mutable(field).Message(), n)
		default:
			m.Set(field, scalar(field, *n))
		}
	}
}

func scalar(field protoreflect.FieldDescriptor, n int64) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(fmt.Sprint("s", n))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(1)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(n)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(n))
	}
	return protoreflect.ValueOfBytes(nil)
}

// fieldsOf returns the fields of an object by its schema.
func (tr *Tracker) fieldsOf(t *testing.T, o kube.Object) *fieldpath.Set {
	t.Helper()
	value, err := tr.types.ObjectToTyped(o, typed.AllowDuplicates)
	if err != nil {
		t.Fatal(err)
	}
	fields, err := value.ToFieldSet()
	if err != nil {
		t.Fatal(err)
	}
	return fields
}

// TestPathsAsInKubernetes checks for every field of every kind of Kubernetes that package apply gives the
// field the same path as its schema: fields that ApplyService owns exist, and a field that an update changes
// is taken from its owners.
func TestPathsAsInKubernetes(t *testing.T) {
	for _, codec := range resource.Codecs {
		if codec.GroupVersionKind.Group == "events.k8s.io" {
			continue // ownership has the names of the group ""
		}
		t.Run(codec.GroupVersionKind.Kind, func(t *testing.T) {
			tr, err := For(codec, "")
			if err != nil {
				t.Fatal(err)
			}
			full := codec.Kind.New()
			n := int64(1)
			fill(full.ProtoReflect(), &n)
			meta := object.MetaOf(full)
			meta.ManagedFields = nil
			known := tr.fieldsOf(t, codec.Write(full))
			if missing := apply.FieldsOf(full).Difference(known); !missing.Empty() {
				t.Errorf("Kubernetes has no fields\n%v", missing)
			}
			text, err := known.ToJSON()
			if err != nil {
				t.Fatal(err)
			}
			meta.ManagedFields = []*corev1.ManagedFields{{Manager: "m", Operation: corev1.ManagedFieldsOperation_MANAGED_FIELDS_OPERATION_UPDATE, ApiVersion: "v1", FieldsV1: text}}
			bare := codec.Kind.New()
			left := fieldpath.NewSet()
			for _, entry := range codec.Write(withOwners(bare, apply.AfterUpdate(full, bare, nil, false, meta.GetCreationTimestamp().AsTime()))).GetManagedFields() {
				if err := left.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
					t.Fatal(err)
				}
			}
			if left = left.Difference(tr.fieldsOf(t, codec.Write(bare))).RecursiveDifference(unowned.Union(derived)); !left.Empty() {
				t.Errorf("an update that removes all fields leaves owners of\n%v", left)
			}
		})
	}
}

func withOwners(o object.Object, entries []*corev1.ManagedFields) object.Object {
	object.MetaOf(o).ManagedFields = entries
	return o
}

// unowned are the fields of the identity of an object, which Kubernetes never has in an entry.
var unowned = fieldpath.NewSet(
	fieldpath.MakePathOrDie("apiVersion"), fieldpath.MakePathOrDie("kind"), fieldpath.MakePathOrDie("metadata", "name"), fieldpath.MakePathOrDie("metadata", "namespace"),
	fieldpath.MakePathOrDie("metadata", "generateName"), fieldpath.MakePathOrDie("metadata", "uid"), fieldpath.MakePathOrDie("metadata", "resourceVersion"),
	fieldpath.MakePathOrDie("metadata", "generation"), fieldpath.MakePathOrDie("metadata", "creationTimestamp"),
	fieldpath.MakePathOrDie("metadata", "deletionTimestamp"), fieldpath.MakePathOrDie("metadata", "deletionGracePeriodSeconds"),
)

// derived are the fields that a codec derives from others: the reporter of an event by its old name, and the
// weights of all endpoints, which are part of a list with one owner. They keep their owners.
var derived = fieldpath.NewSet(
	fieldpath.MakePathOrDie("source"), fieldpath.MakePathOrDie("metadata", "annotations", kube.AnnotationWeight),
)
