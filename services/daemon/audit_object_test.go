package daemon

import (
	"testing"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/audit"
)

// TestObjectOfCalls covers the methods that do not belong to a kind. The tests of the registry cover
// the methods of kinds.
func TestObjectOfCalls(t *testing.T) {
	owner := &allocatorv1.Owner{Kind: "Service", Namespace: "shop", Name: "web", Uid: "u"}
	for name, tt := range map[string]struct {
		request, response any
		want              audit.Object
	}{
		"one claim": {
			request: &allocatorv1.AllocateRequest{Sets: []*allocatorv1.ClaimSet{{Owner: owner}}, DryRun: true},
			want:    audit.Object{Kind: "Service", Namespace: "shop", Name: "web", UID: "u", DryRun: true},
		},
		"claims of several": {
			request: &allocatorv1.AllocateRequest{Sets: []*allocatorv1.ClaimSet{{Owner: owner}, {}}},
			want:    audit.Object{Kind: "Service", Namespace: "shop", Name: "web", UID: "u", Objects: 2},
		},
		"no claims": {request: &allocatorv1.AllocateRequest{}},
		"confirm": {
			request: &allocatorv1.ConfirmRequest{Owners: []*allocatorv1.OwnerSlots{{OwnerUid: "u"}, {OwnerUid: "v"}}},
			want:    audit.Object{UID: "u", Objects: 2},
		},
		"release":     {request: &allocatorv1.ReleaseRequest{Owners: []*allocatorv1.OwnerSlots{{OwnerUid: "u"}}}, want: audit.Object{UID: "u"}},
		"pool":        {request: &allocatorv1.CreatePoolRequest{Pool: &allocatorv1.Pool{Name: "p"}}, want: audit.Object{Kind: "Pool", Name: "p"}},
		"delete pool": {request: &allocatorv1.DeletePoolRequest{Name: "p"}, want: audit.Object{Kind: "Pool", Name: "p"}},
		"import":      {response: &registryv1.ImportResponse{Objects: 3, Revision: 9}, want: audit.Object{Revision: 9}},
		"nothing":     {},
		"empty apply": {request: &registryv1.ApplyRequest{}, response: &registryv1.ApplyResponse{}},
	} {
		if got := objectOf("", tt.request, tt.response); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
		}
	}
}

// TestSubjectsAreComplete checks that every method of a kind that writes an object has the field of
// the object.
func TestSubjectsAreComplete(t *testing.T) {
	for _, kind := range kinds.All {
		for _, verb := range []kinds.Verb{kinds.Create, kinds.Update, kinds.UpdateStatus} {
			if verb == kinds.UpdateStatus && !kind.HasStatus() {
				continue
			}
			if subjects["/portolan.registry.v1."+kind.ServiceName()+"/"+kind.Method(verb)].object == nil {
				t.Errorf("the object of %s is not found", kind.Method(verb))
			}
		}
	}
}

// BenchmarkObjectOf measures the object of a create.
func BenchmarkObjectOf(b *testing.B) {
	const method = "/portolan.registry.v1.ServiceService/CreateService"
	request := &registryv1.CreateServiceRequest{Service: &corev1.Service{Metadata: &corev1.ObjectMeta{Name: "web"}}}
	b.ReportAllocs()
	for b.Loop() {
		objectOf(method, request, nil)
	}
}
