package response_test

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry/internal/response"
)

func encode(t *testing.T, m proto.Message) []byte {
	t.Helper()
	encoded, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// TestMessages builds each response from parts and decodes it with the generated code.
func TestMessages(t *testing.T) {
	one := &corev1.Service{Metadata: &corev1.ObjectMeta{Name: "one"}, Spec: &corev1.ServiceSpec{ClusterIp: "10.96.0.1"}}
	two := &corev1.Service{Metadata: &corev1.ObjectMeta{Name: "two"}}
	for _, test := range []struct {
		name  string
		build func(m *response.Message)
		want  proto.Message
	}{
		{"get", func(m *response.Message) { m.AddObject(encode(t, one)) }, &registryv1.GetServiceResponse{Service: one}},
		{"empty object", func(m *response.Message) { m.AddObject(nil) }, &registryv1.GetServiceResponse{Service: &corev1.Service{}}},
		{"create", func(m *response.Message) {
			m.AddObject(encode(t, one))
			m.AddWarnings([]string{"a", "b"})
		}, &registryv1.CreateServiceResponse{Service: one, Warnings: []string{"a", "b"}}},
		{"list", func(m *response.Message) {
			m.AddObject(encode(t, one))
			m.AddObject(encode(t, two))
			m.EndList("next", 7, 5)
		}, &registryv1.ListServicesResponse{Services: []*corev1.Service{one, two}, NextPageToken: "next", Revision: 7, Remaining: 5}},
		{"last page", func(m *response.Message) { m.EndList("", 0, 0) }, &registryv1.ListServicesResponse{}},
		{"watch", func(m *response.Message) {
			m.AddChanges(response.Change(1, encode(t, one), 5))
			m.AddChanges(response.Change(2, encode(t, two), 300))
			m.EndWatch(300, true)
		}, &registryv1.WatchServicesResponse{
			Changes: []*registryv1.ServiceChange{
				{Type: registryv1.ChangeType_CHANGE_TYPE_PUT, Service: one, Revision: 5},
				{Type: registryv1.ChangeType_CHANGE_TYPE_DELETE, Service: two, Revision: 300},
			},
			Revision: 300, Synced: true,
		}},
		{"snapshot", func(m *response.Message) {
			m.AddEnvelope("Service", encode(t, one))
			m.EndSnapshot("epoch", 9, true, 4)
		}, &registryv1.SnapshotResponse{
			Epoch: "epoch", Revision: 9, Complete: true, Total: 4,
			Objects: []*corev1.Object{{Kind: &corev1.Object_Service{Service: one}}},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var m response.Message
			test.build(&m)
			buf := make([]byte, m.SizeVT())
			if n, err := m.MarshalToSizedBufferVT(buf); err != nil || n != len(buf) {
				t.Fatalf("marshal = %d, %v", n, err)
			}
			got := test.want.ProtoReflect().New().Interface()
			if err := proto.Unmarshal(buf, got); err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(got, test.want) {
				t.Errorf("got  %v\nwant %v", got, test.want)
			}
		})
	}
}

// TestMessageIsUsedAgain sends several messages in the same memory, small ones and a large one.
func TestMessageIsUsedAgain(t *testing.T) {
	var m response.Message
	for _, objects := range []int{1, 3, 1000, 0, 2} {
		m.Reset()
		want := &registryv1.SnapshotResponse{Epoch: "epoch", Revision: uint64(objects)}
		for n := range objects {
			svc := &corev1.Service{Metadata: &corev1.ObjectMeta{Name: fmt.Sprint(n)}}
			m.AddEnvelope("Service", encode(t, svc))
			want.Objects = append(want.Objects, &corev1.Object{Kind: &corev1.Object_Service{Service: svc}})
		}
		m.EndSnapshot("epoch", uint64(objects), false, 0)
		buf := make([]byte, m.SizeVT())
		if _, err := m.MarshalToSizedBufferVT(buf); err != nil {
			t.Fatal(err)
		}
		got := &registryv1.SnapshotResponse{}
		if err := proto.Unmarshal(buf, got); err != nil || !proto.Equal(got, want) {
			t.Errorf("%d objects: got %v, %v", objects, got, err)
		}
	}
}

// TestObject checks that WithRevision sets the version of an object without decoding it.
func TestObject(t *testing.T) {
	for _, o := range []*corev1.Service{
		{}, {Spec: &corev1.ServiceSpec{ClusterIp: "10.96.0.1"}},
		{Metadata: &corev1.ObjectMeta{Name: "web", Labels: map[string]string{"a": "b"}}, Status: &corev1.ServiceStatus{}},
	} {
		field, encoded := response.WithRevision(encode(t, o), 1<<40)
		var m response.Message
		m.AddField(field)
		buf := make([]byte, m.SizeVT())
		if _, err := m.MarshalToSizedBufferVT(buf); err != nil {
			t.Fatal(err)
		}
		answer, alone, want := &registryv1.GetServiceResponse{}, &corev1.Service{}, o.CloneVT()
		if want.Metadata == nil {
			want.Metadata = &corev1.ObjectMeta{}
		}
		want.Metadata.ResourceVersion = 1 << 40
		if err := proto.Unmarshal(buf, answer); err != nil || !proto.Equal(answer.GetService(), want) {
			t.Errorf("answer = %v, %v; want %v", answer, err, want)
		}
		if err := alone.UnmarshalVT(encoded); err != nil || !proto.Equal(alone, want) {
			t.Errorf("object = %v, %v; want %v", alone, err, want)
		}
	}
}

// TestCheck checks that responses with other field numbers are refused.
func TestCheck(t *testing.T) {
	service := (&corev1.Service{}).ProtoReflect().Descriptor().FullName()
	for _, good := range []proto.Message{&registryv1.ListServicesResponse{}, &registryv1.WatchServicesResponse{}, &registryv1.CreateServiceResponse{}} {
		if err := response.Check(good.ProtoReflect().Descriptor(), service); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []proto.Message{&registryv1.ListPodsResponse{}, &registryv1.WatchPodsResponse{}, &registryv1.GetHeadResponse{}} {
		if response.Check(bad.ProtoReflect().Descriptor(), service) == nil {
			t.Errorf("%s was accepted", bad.ProtoReflect().Descriptor().FullName())
		}
	}
}
