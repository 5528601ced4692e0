package ownership

import (
	"fmt"
	"maps"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// TestOwnersOfUpdates has two managers replace an object. A manager owns the fields that it has changed, and takes them
// from the manager that owned them. Writes of the objects themselves do not touch the owners of the status, and writes
// of the status do not touch the owners of other fields.
func TestOwnersOfUpdates(t *testing.T) {
	codec := codecOf(t, schema.GroupVersionKind{Version: "v1", Kind: "Service"})
	for subresource, want := range map[string]map[string]string{
		"":       {"first": `{"f:metadata":{"f:labels":{".":{},"f:a":{}}}}`, "second": `{"f:metadata":{"f:labels":{"f:b":{},"f:c":{}}}}`},
		"status": {"first": `{"f:status":{"f:loadBalancer":{"f:ingress":{}}}}`},
	} {
		tr, err := For(codec, subresource)
		if err != nil {
			t.Fatal(err)
		}
		stored := tr.Empty()
		for _, write := range []struct {
			manager string
			labels  map[string]string
		}{{"first", map[string]string{"a": "1", "c": "1"}}, {"second", map[string]string{"a": "1", "b": "1", "c": "2"}}} {
			updated := codec.Write(&corev1.Service{
				Metadata: &corev1.ObjectMeta{Name: "web", Namespace: "shop", Labels: write.labels},
				Status:   &corev1.ServiceStatus{LoadBalancer: &corev1.LoadBalancerStatus{Ingress: []*corev1.LoadBalancerIngress{{Ip: "192.0.2.1"}}}},
			})
			updated.SetManagedFields(stored.GetManagedFields())
			owners, err := tr.Update(stored, updated, write.manager)
			if err != nil {
				t.Fatal(err)
			}
			updated.SetManagedFields(owners)
			stored = updated
		}
		got := map[string]string{}
		for _, entry := range stored.GetManagedFields() {
			got[entry.Manager] = string(entry.FieldsV1.GetRawBytes())
			if entry.Subresource != subresource {
				t.Errorf("the entry of %s has the subresource %q, want %q", entry.Manager, entry.Subresource, subresource)
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("after updates of the subresource %q, owned are\n%v, want\n%v", subresource, got, want)
		}
	}
}

// TestTrackersAreKept checks that a tracker is made once. Each request of a writer needs one, and making it reads the
// schemas of all types.
func TestTrackersAreKept(t *testing.T) {
	codec := codecOf(t, schema.GroupVersionKind{Version: "v1", Kind: "Service"})
	made := map[*Tracker]bool{}
	for _, subresource := range []string{"", "", status, status} {
		tr, err := For(codec, subresource)
		if err != nil {
			t.Fatal(err)
		}
		made[tr] = true
	}
	if len(made) != 2 {
		t.Errorf("there are %d trackers for the object and its status, want two", len(made))
	}
}

// TestPresent checks that entries lose the fields that an object does not have, that an entry without any is dropped, and
// that an entry that cannot be read is an error: it would otherwise take the owners from the object silently.
func TestPresent(t *testing.T) {
	codec := codecOf(t, schema.GroupVersionKind{Version: "v1", Kind: "Service"})
	tr, err := For(codec, "")
	if err != nil {
		t.Fatal(err)
	}
	o := codec.Write(&corev1.Service{Metadata: &corev1.ObjectMeta{Name: "web", Labels: map[string]string{"a": "1"}}})
	entryOf := func(manager, fields string) metav1.ManagedFieldsEntry {
		e := metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: &metav1.FieldsV1{}}
		e.FieldsV1.SetRawBytes([]byte(fields))
		return e
	}
	const a = `{"f:metadata":{"f:labels":{"f:a":{}}}}`
	entries := []metav1.ManagedFieldsEntry{
		entryOf("both", `{"f:metadata":{"f:labels":{"f:a":{},"f:b":{}}}}`), entryOf("gone", `{"f:metadata":{"f:labels":{"f:b":{}}}}`), entryOf("only", a),
	}
	kept, err := tr.Present(entries, o)
	if err != nil || len(kept) != 2 || kept[0].Manager != "both" || kept[1].Manager != "only" {
		t.Fatalf("left are %v, %v", kept, err)
	}
	for _, e := range kept {
		if text := string(e.FieldsV1.GetRawBytes()); text != a {
			t.Errorf("%s owns %s, want %s", e.Manager, text, a)
		}
	}
	if kept, err := tr.Present([]metav1.ManagedFieldsEntry{entryOf("m", "[")}, o); err == nil {
		t.Errorf("an entry that cannot be read becomes %v", kept)
	}
}
