package applyset

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/apply"
	"portolan.dev/services/kinds"
	"portolan.dev/services/object"
)

// applied returns a service with the label app=shop, as ApplyService stores it.
func applied(name string) *corev1.Service {
	return &corev1.Service{Metadata: &corev1.ObjectMeta{
		Name: name, Namespace: object.DefaultNamespace, Labels: map[string]string{"app": "shop"},
		ManagedFields: []*corev1.ManagedFields{{Manager: apply.Manager, Operation: corev1.ManagedFieldsOperation_MANAGED_FIELDS_OPERATION_APPLY}},
	}}
}

// TestStale checks the conditions of pruning, one at a time.
func TestStale(t *testing.T) {
	kept := &corev1.Service{Metadata: &corev1.ObjectMeta{Name: "kept", Labels: map[string]string{"app": "shop"}}} // in "default"
	set, err := NewSet([]object.Object{kept}, SetOptions{Selector: "app=shop"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(*corev1.ObjectMeta)
		want   bool
	}{
		{"stale", func(*corev1.ObjectMeta) {}, true},
		{"in the set", func(m *corev1.ObjectMeta) { m.Name = "kept" }, false},
		{"of another namespace", func(m *corev1.ObjectMeta) { m.Name, m.Namespace = "kept", "shop" }, true},
		{"other labels", func(m *corev1.ObjectMeta) { m.Labels = map[string]string{"app": "blog"} }, false},
		{"never applied", func(m *corev1.ObjectMeta) { m.ManagedFields = nil }, false},
		{"of another manager", func(m *corev1.ObjectMeta) { m.ManagedFields[0].Manager = "kubectl" }, false},
		{"updated by a manager of that name", func(m *corev1.ObjectMeta) {
			m.ManagedFields[0].Operation = corev1.ManagedFieldsOperation_MANAGED_FIELDS_OPERATION_UPDATE
		}, false},
		{"by an earlier release", func(m *corev1.ObjectMeta) {
			m.ManagedFields = []*corev1.ManagedFields{{Manager: apply.Manager, Fields: []string{"spec.type"}}}
		}, true},
		{"owned", func(m *corev1.ObjectMeta) { m.OwnerReferences = []*corev1.OwnerReference{{Name: "owner"}} }, false},
		{"deleted", func(m *corev1.ObjectMeta) { m.DeletionTimestamp = timestamppb.Now() }, false},
	} {
		stored := applied("old")
		c.change(stored.Metadata)
		if got := set.isStale(stored); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestLastingKinds checks which kinds are pruned, so that a new kind is a decision.
func TestLastingKinds(t *testing.T) {
	var lasting []string
	for _, kind := range kinds.All {
		if kind.Lasting {
			lasting = append(lasting, kind.Plural)
		}
	}
	if want := []string{"nodes", "leases", "events", "revocations"}; !slices.Equal(lasting, want) {
		t.Errorf("lasting kinds are %q, want %q", lasting, want)
	}
}

// TestOrder checks that kinds come after those that they refer to, and that objects of one kind keep
// their order.
func TestOrder(t *testing.T) {
	meta := func(name string) *corev1.ObjectMeta { return &corev1.ObjectMeta{Name: name} }
	objects := []object.Object{
		&corev1.Pod{Metadata: meta("p")}, &corev1.Service{Metadata: meta("z")}, &corev1.Namespace{Metadata: meta("n")}, &corev1.Service{Metadata: meta("a")},
	}
	var names []string
	for _, o := range InOrder(objects) {
		names = append(names, Name(o))
	}
	if want := []string{"namespace/n", "service/z", "service/a", "pod/p"}; !slices.Equal(names, want) {
		t.Errorf("the order is %q, want %q", names, want)
	}
	if Name(objects[0]) != "pod/p" {
		t.Error("the objects of the caller were moved")
	}
}
