package changes_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

func service(name string, version int) *corev1.Service {
	return &corev1.Service{Metadata: &corev1.ObjectMeta{
		Namespace: "default", Name: name, Labels: map[string]string{"version": strconv.Itoa(version), "app": name},
	}}
}

func node(name string) *corev1.Node { return &corev1.Node{Metadata: &corev1.ObjectMeta{Name: name}} }

func serviceKey(name string) object.Key {
	return object.Key{Kind: "Service", Namespace: "default", Name: name}
}

// putMany commits n versions of a few services.
func putMany(log *changestest.Log, n int) {
	for i := range n {
		log.Put(service(fmt.Sprintf("s%d.example", i%7), i))
	}
}

// fast shortens a follower's periods, so that tests which wait for one do not take seconds. No test
// depends on their length.
func fast(cfg changes.FollowerConfig) changes.FollowerConfig {
	cfg.BookmarkEvery = 50 * time.Millisecond
	cfg.IdleEvery = 5 * time.Millisecond
	cfg.Jitter = 5 * time.Millisecond
	cfg.RetryMax = 50 * time.Millisecond
	cfg.VerifyEvery = 200 * time.Millisecond
	return cfg
}

// replay is an Apply function that builds a state from changes alone and checks each change against
// that state. Its fields belong to the follower's goroutine: read them only while the follower is
// idle.
type replay struct {
	objects  map[object.Key]object.Object
	calls    int
	revision uint64
	batches  [][]changes.Change
	repeats  bool // a forged change may equal the object's state
}

func newReplay() *replay { return &replay{objects: map[object.Key]object.Object{}} }

func (r *replay) apply(_ context.Context, batch []changes.Change, revision uint64) error {
	r.calls++
	r.batches = append(r.batches, batch)
	for _, c := range batch {
		if old := r.objects[c.Key]; old != c.Old {
			return fmt.Errorf("%s at %d: Old is %v, was handed over as %v", c.Key, c.Revision, c.Old, old)
		}
		switch {
		case c.Kind != c.Key.Kind || c.Revision > revision:
			return fmt.Errorf("%s at %d, up to %d: %+v", c.Key, c.Revision, revision, c)
		case c.Old == nil && c.New == nil:
			return fmt.Errorf("%s at %d: neither Old nor New", c.Key, c.Revision)
		case c.Old != nil && c.New != nil && !r.repeats && object.Equal(c.Old, c.New):
			return fmt.Errorf("%s at %d: nothing changes", c.Key, c.Revision)
		case c.New == nil:
			delete(r.objects, c.Key)
		default:
			r.objects[c.Key] = c.New
		}
	}
	r.revision = revision
	return nil
}

// stateOf returns the log's objects of the given kinds, or of all kinds if none are given.
func stateOf(log *changestest.Log, kinds ...string) map[object.Key]object.Object {
	state := map[object.Key]object.Object{}
	for _, o := range log.Objects() {
		state[object.KeyOf(o)] = o
	}
	if len(kinds) > 0 {
		maps.DeleteFunc(state, func(key object.Key, _ object.Object) bool {
			for _, kind := range kinds {
				if key.Kind == kind {
					return false
				}
			}
			return true
		})
	}
	return state
}

// viewOf returns the objects of a follower's view.
func viewOf(f *changes.Follower) map[object.Key]object.Object {
	state := map[object.Key]object.Object{}
	for _, kind := range kinds.All {
		for _, o := range f.View().List(kind.Name) {
			state[object.KeyOf(o)] = o
		}
	}
	return state
}

// same returns an error with the difference if two states differ in content.
func same(want, got map[object.Key]object.Object) error {
	if maps.EqualFunc(want, got, object.Equal) {
		return nil // computing the difference takes much longer
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		return errors.New("states differ (-want +got):\n" + diff)
	}
	return nil
}

// waitForView waits until a follower's view equals the log's state.
func waitForView(t *testing.T, log *changestest.Log, f *changes.Follower) {
	t.Helper()
	kittest.Eventually(t, "view to be the log's", func() error { return same(stateOf(log), viewOf(f)) })
}

// outage is a connection that the test can make fail.
type outage struct {
	grpc.ClientConnInterface
	down      atomic.Bool
	snapshots atomic.Int64
	lists     atomic.Int64
}

func (o *outage) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	o.lists.Add(1)
	if o.down.Load() {
		return status.Error(codes.Unavailable, "out")
	}
	return o.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}

func (o *outage) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	o.snapshots.Add(1)
	if o.down.Load() {
		return nil, status.Error(codes.Unavailable, "out")
	}
	return o.ClientConnInterface.NewStream(ctx, desc, method, opts...)
}

// republished returns the message that the NATS server makes of a change.
func republished(t testing.TB, epoch string, change changes.LoggedChange) *nats.Msg {
	t.Helper()
	key := object.KeyOf(object.Unwrap(change.GetObject()))
	tail := fmt.Sprintf("chg.%s.%s.%s", changes.EncodeToken(key.Kind), changes.EncodeToken(key.Namespace), changes.EncodeToken(key.Name))
	m := nats.NewMsg("test.rep." + tail)
	m.Header.Set("Nats-Stream", "test_CHG")
	m.Header.Set("Nats-Subject", "test."+tail)
	m.Header.Set("Nats-Sequence", strconv.FormatUint(change.GetRevision(), 10))
	m.Header.Set("Nats-Last-Sequence", "0")
	m.Header.Set("Portolan-Epoch", epoch)
	m.Header.Set("Portolan-Encoding", "1")
	m.Data = change.Payload
	return m
}

// bookmark returns the message that a relay sends for a head.
func bookmark(t testing.TB, epoch string, head uint64) *nats.Msg {
	t.Helper()
	payload, err := (&registryv1.Bookmark{Epoch: epoch, Revision: head}).MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	return &nats.Msg{Subject: "test.rep.head", Data: payload}
}
