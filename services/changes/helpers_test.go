package changes_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	corev1 "portolan.dev/proto/portolan/core/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

func service(name string, port uint32) *corev1.Service {
	return &corev1.Service{
		Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"port": fmt.Sprint(port)}},
	}
}

func node(name string) *corev1.Node {
	return &corev1.Node{Metadata: &corev1.ObjectMeta{Name: name}}
}

func serviceKey(name string) object.Key {
	return object.Key{Kind: "Service", Namespace: "default", Name: name}
}

// fast makes a follower's periods short, so that tests of what happens after one do not take seconds. No test depends on their length.
func fast(cfg changes.FollowerConfig) changes.FollowerConfig {
	cfg.BookmarkEvery = 50 * time.Millisecond
	cfg.IdleEvery = 5 * time.Millisecond
	cfg.Jitter = 5 * time.Millisecond
	cfg.RetryMax = 50 * time.Millisecond
	return cfg
}

// replay is an Apply that builds a state from changes alone and checks each of them against it.
type replay struct {
	objects  map[object.Key]object.Object
	calls    int
	revision uint64
	failure  error // the first thing that was wrong
}

func newReplay() *replay { return &replay{objects: map[object.Key]object.Object{}} }

func (r *replay) apply(_ context.Context, batch []changes.Change, revision uint64) error {
	r.calls++
	for _, c := range batch {
		if old := r.objects[c.Key]; old != c.Old {
			r.fail("%s at %d: Old is %v, was handed over as %v", c.Key, c.Revision, c.Old, old)
		}
		switch {
		case c.Old == nil && c.New == nil:
			r.fail("%s at %d: neither Old nor New", c.Key, c.Revision)
		case c.New == nil:
			delete(r.objects, c.Key)
		default:
			r.objects[c.Key] = c.New
		}
	}
	r.revision = revision
	return nil
}

func (r *replay) fail(format string, args ...any) {
	if r.failure == nil {
		r.failure = fmt.Errorf(format, args...)
	}
}

// sameAs compares a state by its content with the log's. Call it when the follower is stopped or the log is at rest and followed up.
func sameAs(log *changestest.Log, kinds []string, got map[object.Key]object.Object) error {
	followed := map[string]bool{}
	for _, kind := range kinds {
		followed[kind] = true
	}
	want := map[object.Key]object.Object{}
	for _, o := range log.Objects() {
		if key := object.KeyOf(o); len(kinds) == 0 || followed[key.Kind] {
			want[key] = o
		}
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		return errors.New("state differs from the log's (-log +got):\n" + diff)
	}
	return nil
}

// viewOf returns what a follower's view has.
func viewOf(f *changes.Follower) map[object.Key]object.Object {
	got := map[object.Key]object.Object{}
	for _, kind := range object.Kinds {
		for _, o := range f.View().List(kind.Name) {
			got[object.KeyOf(o)] = o
		}
	}
	return got
}

// waitForView waits until a follower's view is what the log has.
func waitForView(t *testing.T, log *changestest.Log, f *changes.Follower) {
	t.Helper()
	kittest.Eventually(t, "view to be the log's", func() error { return sameAs(log, nil, viewOf(f)) })
}
