package view_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/balancer"
	"portolan.dev/services/changes"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"

	"portolan.dev/edge/internal/view"
)

func service(name, class string) *corev1.Service {
	return &corev1.Service{
		Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name, Uid: name},
		Spec:     &corev1.ServiceSpec{Type: corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, LoadBalancerClass: &class},
	}
}

func slice(service, name string) *corev1.EndpointSlice {
	return &corev1.EndpointSlice{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{object.LabelServiceName: service}}}
}

func node(name, zone string) *corev1.Node {
	return &corev1.Node{Metadata: &corev1.ObjectMeta{Name: name, Labels: map[string]string{object.LabelZone: zone}}}
}

func secret(name, of string) *corev1.Secret {
	return &corev1.Secret{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name}, Type: of}
}

// follow returns a view that follows a feed as the edge's follower does.
func follow(t *testing.T, objects ...object.Object) (*view.View, *changestest.Feed) {
	t.Helper()
	v := view.New("here")
	feed := changestest.NewFeed(t, func(_ context.Context, batch []changes.Change, revision uint64) error {
		v.Apply(batch, revision)
		return nil
	}, objects...)
	return v, feed
}

func name(text string) object.Name { return object.Name{Namespace: "default", Name: text} }

// TestBatches checks that a batch has the services that a change concerns, and no others.
func TestBatches(t *testing.T) {
	v, feed := follow(t,
		service("web", balancer.ClassEdge), service("other", balancer.ClassPool), slice("web", "web-1"), slice("other", "other-1"), node("here", "a"), node("there", "b"),
		secret("cert", spec.SecretTypeTLS), secret("password", "Opaque"))
	b := v.NextBatch()
	if len(b.Services) != 1 || b.Services[name("web")].Object == nil || len(b.Services[name("web")].Slices) != 1 {
		t.Errorf("the first batch has %v", b.Services)
	}
	if len(b.Secrets) != 1 || b.Zone != "a" {
		t.Errorf("secrets %v, zone %q", b.Secrets, b.Zone)
	}
	if b = v.NextBatch(); len(b.Services) > 0 || b.Secrets != nil {
		t.Errorf("a batch without changes has %v, %v", b.Services, b.Secrets)
	}
	for _, tc := range []struct {
		what     string
		change   func()
		services int
		secrets  bool
	}{
		{"a slice", func() { feed.Put(slice("web", "web-2")) }, 1, false},
		{"a slice of another class", func() { feed.Put(slice("other", "other-2")) }, 0, false},
		{"a service of another class", func() { feed.Put(service("more", balancer.ClassPool)) }, 0, false},
		{"the zone", func() { feed.Put(node("here", "c")) }, 1, false},
		{"another node", func() { feed.Put(node("there", "c")) }, 0, false},
		{"a secret", func() { feed.Put(secret("cert", spec.SecretTypeTLS)) }, 0, true},
		{"another secret", func() { feed.Put(secret("password", "Opaque")) }, 0, false},
		{"a deleted slice", func() { feed.Delete(object.KeyOf(slice("web", "web-2"))) }, 1, false},
		{"a deleted service", func() { feed.Delete(object.KeyOf(service("web", ""))) }, 1, false},
	} {
		tc.change()
		if b := v.NextBatch(); len(b.Services) != tc.services || (b.Secrets != nil) != tc.secrets {
			t.Errorf("%s: the batch has %v and secrets %v", tc.what, b.Services, b.Secrets)
		}
	}
}

// TestASliceBeforeItsService checks that the order of a service and its slices does not matter.
func TestASliceBeforeItsService(t *testing.T) {
	v, feed := follow(t)
	feed.Put(slice("web", "web-1"))
	feed.Put(service("web", balancer.ClassEdge))
	if b := v.NextBatch(); len(b.Services[name("web")].Slices) != 1 {
		t.Errorf("the batch has %v", b.Services)
	}
}

// TestTheFileIsPrivate checks that only the owner of the file, which has keys, may read it.
func TestTheFileIsPrivate(t *testing.T) {
	v, _ := follow(t, secret("cert", spec.SecretTypeTLS))
	path := filepath.Join(t.TempDir(), "view")
	if err := v.Save(path); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the mode is %s", info.Mode())
	}
}

// TestDisk checks that a view that was loaded serves until the registry's snapshot replaces it.
func TestDisk(t *testing.T) {
	v, _ := follow(t, service("web", balancer.ClassEdge), slice("web", "web-1"), slice("unknown", "unknown-1"), secret("cert", spec.SecretTypeTLS), node("here", "a"))
	path := filepath.Join(t.TempDir(), "view")
	if err := v.Save(path); err != nil {
		t.Fatal(err)
	}
	loaded := view.New("here")
	if _, _, err := loaded.Load(path); err != nil {
		t.Fatal(err)
	}
	b := loaded.NextBatch()
	if len(b.Services) != 1 || len(b.Services[name("web")].Slices) != 1 || len(b.Secrets) != 1 || b.Zone != "a" || loaded.Revision() != v.Revision() {
		t.Errorf("loaded %+v at %d", b, loaded.Revision())
	}
	loaded.Apply(nil, 100) // an empty snapshot
	if b := loaded.NextBatch(); b.Services[name("web")].Object != nil || len(b.Services) != 1 || len(b.Secrets) != 0 || b.Zone != "" {
		t.Errorf("after an empty snapshot: %+v", b)
	}
	if _, _, err := view.New("there").Load(path); err == nil {
		t.Error("the view of another node was loaded")
	}
}
