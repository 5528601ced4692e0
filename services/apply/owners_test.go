package apply_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/apply"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

const (
	opApply  = corev1.ManagedFieldsOperation_MANAGED_FIELDS_OPERATION_APPLY
	opUpdate = corev1.ManagedFieldsOperation_MANAGED_FIELDS_OPERATION_UPDATE
)

// entry returns the entry of a manager that owns fields.
func entry(manager string, fields *fieldpath.Set) *corev1.ManagedFields {
	text, err := fields.ToJSON()
	if err != nil {
		panic(err)
	}
	return &corev1.ManagedFields{Manager: manager, Operation: opUpdate, ApiVersion: "v1", Time: timestamppb.New(now), FieldsV1: text}
}

// fieldsOf returns the fields of each manager of an object.
func fieldsOf(o object.Object) map[string]*fieldpath.Set {
	all := map[string]*fieldpath.Set{}
	for _, e := range o.GetMetadata().GetManagedFields() {
		all[e.GetManager()] = fieldpath.NewSet()
		if err := all[e.GetManager()].FromJSON(bytes.NewReader(e.GetFieldsV1())); err != nil {
			panic(err)
		}
	}
	return all
}

// drawService draws a service with some labels, ports and a type.
func drawService(t *rapid.T, name string) *corev1.Service {
	value := rapid.SampledFrom([]string{"1", "2"})
	s := service(&corev1.ServiceSpec{Type: corev1.ServiceType(rapid.Int32Range(0, 2).Draw(t, name+" type"))})
	s.Metadata.Labels = rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), value, 0, 3).Draw(t, name+" labels")
	for _, port := range rapid.SliceOfNDistinct(rapid.Int32Range(80, 82), 0, 3, rapid.ID).Draw(t, name+" ports") {
		s.Spec.Ports = append(s.Spec.Ports, &corev1.ServicePort{Port: port, Protocol: corev1.Protocol_PROTOCOL_TCP, Name: value.Draw(t, name+" port")})
	}
	return s
}

// values returns the values of an object by their paths.
func values(s *corev1.Service) map[string]string {
	all := map[string]string{".spec.type": s.GetSpec().GetType().String()}
	for key, value := range s.GetMetadata().GetLabels() {
		all[".metadata.labels."+key] = value
	}
	for _, port := range s.GetSpec().GetPorts() {
		item := fmt.Sprintf(".spec.ports[port=%d,protocol=\"TCP\"]", port.GetPort())
		all[item], all[item+".port"], all[item+".protocol"], all[item+".name"] = "", fmt.Sprint(port.GetPort()), "TCP", port.GetName()
	}
	return all
}

// TestOwnersOfApplications checks for applications to any object with another manager: a field of the other
// one that the manifest does not have keeps its value and its owner; a field is taken only if its value
// changes; managers own only fields that the object has; and the same again changes nothing.
func TestOwnersOfApplications(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stored object.Object = drawService(t, "stored")
		object.MetaOf(stored).ManagedFields = []*corev1.ManagedFields{entry("other", apply.FieldsOf(drawService(t, "other")).Intersection(apply.FieldsOf(stored)))}
		for n := range rapid.IntRange(1, 3).Draw(t, "applications") {
			manifest := drawService(t, fmt.Sprint("manifest", n))
			before, owned := values(stored.(*corev1.Service)), fieldsOf(stored)["other"]
			stored = applied(stored, manifest)
			after, still := values(stored.(*corev1.Service)), fieldsOf(stored)["other"]
			wanted := apply.FieldsOf(manifest)
			if owned == nil {
				owned = fieldpath.NewSet()
			}
			if still == nil {
				still = fieldpath.NewSet()
			}
			for path := range owned.All() {
				was, is := before[path.String()], after[path.String()]
				if _, exists := after[path.String()]; !exists || was != is && !wanted.Has(path) {
					t.Fatalf("%v of the other manager was %q and is %q", path, was, is)
				}
				if still.Has(path) != (was == is) {
					t.Fatalf("%v was %q, is %q, and is owned: %v", path, was, is, still.Has(path))
				}
			}
			for manager, fields := range fieldsOf(stored) {
				if missing := fields.Difference(apply.FieldsOf(stored)); !missing.Empty() {
					t.Fatalf("%s owns %v, which are not there", manager, missing)
				}
			}
			if again := applied(stored, manifest); !proto.Equal(again, stored) {
				t.Fatalf("the same again makes\n%v of\n%v", again, stored)
			}
		}
	})
}

// TestOwnersOfUpdates checks for any update that a manager keeps exactly the fields with unchanged values.
func TestOwnersOfUpdates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stored, updated := drawService(t, "stored"), drawService(t, "updated")
		stored.Metadata.ManagedFields = []*corev1.ManagedFields{entry("m", apply.FieldsOf(stored))}
		updated.Metadata.ManagedFields = apply.AfterUpdate(stored, updated, nil, false, now)
		before, after := values(stored), values(updated)
		kept := fieldsOf(updated)["m"]
		for path := range apply.FieldsOf(stored).All() {
			value, exists := after[path.String()]
			if stays := exists && value == before[path.String()]; stays != (kept != nil && kept.Has(path)) {
				t.Fatalf("%v: %q, %q, owners %v", path, before[path.String()], value, kept)
			}
		}
	})
}

// TestOwnersOfAListWithAKeyTwice changes a list in which two items have the same key. Such a list is one value: its
// manager loses it with the first change. Otherwise the manager would own a value that another manager has set.
func TestOwnersOfAListWithAKeyTwice(t *testing.T) {
	with := func(names ...string) *corev1.Service {
		s := service(&corev1.ServiceSpec{})
		for _, name := range names {
			s.Spec.Ports = append(s.Spec.Ports, &corev1.ServicePort{Port: 80, Name: name})
		}
		return s
	}
	ports := fieldpath.MakePathOrDie("spec", "ports")
	for name, c := range map[string]struct {
		updated *corev1.Service
		owned   bool
	}{
		"the same":      {with("a", "b"), true},
		"another item":  {with("a", "c"), false},
		"another order": {with("b", "a"), false},
		"one item less": {with("a"), false},
	} {
		stored := with("a", "b")
		stored.Metadata.ManagedFields = []*corev1.ManagedFields{entry("m", fieldpath.NewSet(ports))}
		c.updated.Metadata.ManagedFields = apply.AfterUpdate(stored, c.updated, nil, false, now)
		if fields := fieldsOf(c.updated)["m"]; (fields != nil && fields.Has(ports)) != c.owned {
			t.Errorf("%s: the manager owns %v", name, fields)
		}
	}
}

// TestUpdatesWithEntries sends managed fields with an update. The entries of the request replace the stored entries of the
// part that the update writes. An update of the spec must not take the fields of the status from their managers, and an
// update of the status must not take the fields of the spec. An empty entry removes the entries of the written part.
func TestUpdatesWithEntries(t *testing.T) {
	part := func(manager, subresource string) *corev1.ManagedFields {
		path := "spec"
		if subresource != "" {
			path = subresource
		}
		e := entry(manager, fieldpath.NewSet(fieldpath.MakePathOrDie(path)))
		e.Subresource = subresource
		return e
	}
	stored := service(&corev1.ServiceSpec{})
	stored.Metadata.ManagedFields = []*corev1.ManagedFields{part("user", ""), part("lbctl", "status")}
	for name, c := range map[string]struct {
		sent   []*corev1.ManagedFields
		status bool
		want   string
	}{
		"none":                          {nil, false, "user lbctl"},
		"the stored ones":               {stored.Metadata.ManagedFields, false, "user lbctl"},
		"another of the spec":           {[]*corev1.ManagedFields{part("new", "")}, false, "new lbctl"},
		"another of both, to the spec":  {[]*corev1.ManagedFields{part("new", ""), part("newer", "status")}, false, "new lbctl"},
		"another of both, to status":    {[]*corev1.ManagedFields{part("new", ""), part("newer", "status")}, true, "user newer"},
		"the empty one":                 {[]*corev1.ManagedFields{{}}, false, "lbctl"},
		"the empty one and one of spec": {[]*corev1.ManagedFields{{}, part("new", "")}, false, "new lbctl"},
	} {
		var got []string
		for _, e := range apply.AfterUpdate(stored, stored, c.sent, c.status, now) {
			got = append(got, e.GetManager())
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: the managers are %q, want %q", name, text, c.want)
		}
	}
}

// TestTimesOfEntries checks that an entry has the time at which its fields changed.
func TestTimesOfEntries(t *testing.T) {
	manifest := service(&corev1.ServiceSpec{Type: corev1.ServiceType_SERVICE_TYPE_NODE_PORT})
	stored := service(&corev1.ServiceSpec{})
	at := func(when int64) int64 {
		application := apply.New(manifest)
		merged, _ := application.Merge(stored).(*corev1.Service)
		merged.Metadata.ManagedFields, _ = application.Applied(stored, merged, time.Unix(when, 0))
		stored = merged
		return merged.GetMetadata().GetManagedFields()[0].GetTime().GetSeconds()
	}
	if first, again := at(10), at(20); first != 10 || again != 10 {
		t.Errorf("%d, %d", first, again)
	}
	manifest.Spec.ExternalIps = []string{"192.0.2.1"}
	if more := at(30); more != 30 {
		t.Errorf("%d", more)
	}
}

// TestCurrent checks that an entry of an earlier release is read with the fields that the object has.
func TestCurrent(t *testing.T) {
	o := service(&corev1.ServiceSpec{ExternalIps: []string{"192.0.2.1"}, Ports: []*corev1.ServicePort{{Port: 80, NodePort: 30080}}})
	o.Metadata.Labels = map[string]string{"a.b/c": "1"}
	o.Metadata.ManagedFields = []*corev1.ManagedFields{{Manager: "apply", Fields: []string{
		"metadata.labels[a.b/c]", "metadata.labels[gone]", "spec.externalIps", "spec.ports[80/TCP]", "spec.ports[80/TCP].nodePort",
	}}}
	got := apply.Current(o)
	const want = `{"f:metadata":{"f:labels":{"f:a.b/c":{}}},"f:spec":{"f:externalIPs":{},"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:nodePort":{}}}}}`
	if len(got) != 1 || string(got[0].GetFieldsV1()) != want || got[0].GetOperation() != opApply || got[0].GetApiVersion() != "v1" || len(got[0].GetFields()) != 0 {
		t.Errorf("%v", got)
	}
}

func TestValidate(t *testing.T) {
	good := entry("m", fieldpath.NewSet(fieldpath.MakePathOrDie("spec")))
	changed := func(change func(*corev1.ManagedFields)) []*corev1.ManagedFields {
		bad := proto.CloneOf(good)
		change(bad)
		return []*corev1.ManagedFields{good, bad}
	}
	for field, entries := range map[string][]*corev1.ManagedFields{
		"":                                       {good, {Manager: "apply", Fields: []string{"spec"}}},
		"metadata.managedFields":                 slices.Repeat([]*corev1.ManagedFields{good}, 101),
		"metadata.managedFields[1].manager":      changed(func(m *corev1.ManagedFields) { m.Manager = "a\nb" }),
		"metadata.managedFields[1].operation":    changed(func(m *corev1.ManagedFields) { m.Operation = 0 }),
		"metadata.managedFields[1].apiVersion":   changed(func(m *corev1.ManagedFields) { m.ApiVersion = "" }),
		"metadata.managedFields[1].subresource":  changed(func(m *corev1.ManagedFields) { m.Subresource = strings.Repeat("s", 257) }),
		"metadata.managedFields[1].fieldsV1":     changed(func(m *corev1.ManagedFields) { m.FieldsV1 = []byte(`{"x":{}}`) }),
		"metadata.managedFields[1].manager long": changed(func(m *corev1.ManagedFields) { m.Manager = strings.Repeat("m", 129) }),
		"metadata.managedFields big":             changed(func(m *corev1.ManagedFields) { m.FieldsV1 = bytes.Repeat([]byte{' '}, 256<<10) }),
	} {
		want, _, _ := strings.Cut(field, " ")
		var got apierr.Violations
		if got = apply.Validate(entries); want == "" && len(got) == 0 {
			continue
		}
		if len(got) != 1 || got[0].Field != want {
			t.Errorf("%s: %v", field, got)
		}
	}
}

// TestEqualWithoutTimesComparesEveryOtherField changes one field of an entry after the other. If the comparison left a
// field out, a change of only this field would be dropped, because the registry would keep the stored entries.
func TestEqualWithoutTimesComparesEveryOtherField(t *testing.T) {
	other := &corev1.ManagedFields{
		Manager: "m", Operation: opUpdate, ApiVersion: "v1", Subresource: "status", FieldsV1: []byte("{}"), Fields: []string{"spec"}, Time: timestamppb.New(now),
	}
	from := other.ProtoReflect()
	for i := range from.Descriptor().Fields().Len() {
		field := from.Descriptor().Fields().Get(i)
		if !from.Has(field) {
			t.Errorf("%s has no value in this test", field.Name())
		}
		one := &corev1.ManagedFields{}
		one.ProtoReflect().Set(field, from.Get(field))
		same := apply.EqualWithoutTimes([]*corev1.ManagedFields{one}, []*corev1.ManagedFields{{}})
		if same != (field.Name() == "time") {
			t.Errorf("entries that differ in %s are equal: %v", field.Name(), same)
		}
	}
}
