package changes

import (
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// TestVersionsOnly checks that a view of versions stores only versions, and still finds the
// differences to a snapshot. In another epoch equal versions prove nothing.
func TestVersionsOnly(t *testing.T) {
	service := func(uid string, version uint64) object.Object {
		return &corev1.Service{
			Metadata: &corev1.ObjectMeta{Namespace: "a", Name: "x", Uid: uid, ResourceVersion: version, Labels: map[string]string{"long": "text"}},
			Spec:     &corev1.ServiceSpec{ClusterIp: "10.0.0.1"},
		}
	}
	v := newView(true)
	v.put(object.KeyOf(service("u", 1)), service("u", 1))
	if kept := v.Get(object.Key{Kind: "Service", Namespace: "a", Name: "x"}); kept.(*corev1.Service).GetSpec() != nil || kept.GetMetadata().GetLabels() != nil {
		t.Errorf("kept %v", kept)
	}
	for _, tt := range []struct {
		what      string
		object    object.Object
		sameEpoch bool
		changes   int
	}{
		{"the same version", service("u", 1), true, 0},
		{"a later version", service("u", 2), true, 1},
		{"another object of that name", service("v", 2), true, 1},
		{"the same version of another epoch", service("v", 2), false, 1},
		{"the same version", service("v", 2), true, 0},
	} {
		diff := v.replace(snapshot{objects: []object.Object{tt.object}, revision: 9}, tt.sameEpoch)
		if len(diff) != tt.changes || len(diff) == 1 && diff[0].New != tt.object {
			t.Errorf("%s: %v", tt.what, diff)
		}
	}
	if diff := v.replace(snapshot{revision: 10}, true); len(diff) != 1 || diff[0].New != nil || object.KindOf(diff[0].Old) != "Service" {
		t.Errorf("gone: %v", diff)
	}
}
