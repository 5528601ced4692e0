package changelog_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/changelog"
	"portolan.dev/registry/internal/sqlite"
	"portolan.dev/registry/store"
	"portolan.dev/services/object"
)

// TestLoggedObjects checks that the relay and the verifier get pods as a whole, other objects with their
// identity only, and all with the same bytes.
func TestLoggedObjects(t *testing.T) {
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	meta := func() *corev1.ObjectMeta {
		return &corev1.ObjectMeta{Namespace: "default", Name: "a", Uid: "u", Labels: map[string]string{"app": "a"}}
	}
	pod, svc := &corev1.Pod{Metadata: meta(), Spec: &corev1.PodSpec{NodeName: "n1"}}, &corev1.Service{Metadata: meta()}
	for _, o := range []object.Object{pod, svc} {
		data, err := store.Encode(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Submit(t.Context(), store.Op{Action: store.Create, Key: object.KeyOf(o), UID: "u", Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	pod.Metadata.ResourceVersion = 1
	want := []object.Object{pod, &corev1.Service{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: "a", Uid: "u", ResourceVersion: 2}}}
	logged, err := changelog.Log{Store: s}.After(t.Context(), 0, 10)
	if err != nil || len(logged) != len(want) {
		t.Fatalf("%v, %v", logged, err)
	}
	records, _, err := s.Changes(t.Context(), 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	for i, change := range logged {
		if got := object.Unwrap(change.GetObject()); !proto.Equal(got, want[i]) {
			t.Errorf("got %v, want %v", got, want[i])
		}
		if string(change.Payload) != string(changelog.Encode(records[i])) || change.GetRevision() != records[i].Revision || !change.GetTime().AsTime().Equal(records[i].Time) {
			t.Errorf("revision %d differs from its record", change.GetRevision())
		}
	}
}
