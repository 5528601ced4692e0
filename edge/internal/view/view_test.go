package view_test

import (
	"context"
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
	v := view.New("here", nil)
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
	b := v.NextBatch(false)
	if len(b.Services) != 1 || b.Services[name("web")].Object == nil || len(b.Services[name("web")].Slices) != 1 {
		t.Errorf("the first batch has %v", b.Services)
	}
	if len(b.Others) != 1 || view.Zone(b.Self) != "a" {
		t.Errorf("secrets %v, zone %q", b.Others, view.Zone(b.Self))
	}
	if b = v.NextBatch(false); len(b.Services) > 0 || b.Others != nil {
		t.Errorf("a batch without changes has %v, %v", b.Services, b.Others)
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
		if b := v.NextBatch(false); len(b.Services) != tc.services || (b.Others != nil) != tc.secrets {
			t.Errorf("%s: the batch has %v and secrets %v", tc.what, b.Services, b.Others)
		}
	}
}
