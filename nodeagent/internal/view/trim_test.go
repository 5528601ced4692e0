package view

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	corev1 "portolan.dev/api/core/v1"

	"portolan.dev/services/changes"
	"portolan.dev/services/changes/changestest"
)

// TestTrim checks that Trim keeps all fields that plans read, in every combination of conditions.
func TestTrim(t *testing.T) {
	yes, no, node, weight := true, false, "n1", uint32(7)
	s := &corev1.EndpointSlice{
		Metadata: &corev1.ObjectMeta{Namespace: "shop", Name: "web-1"}, AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4,
		Ports:     []*corev1.EndpointPort{{}},
		Endpoints: []*corev1.Endpoint{{}, {Conditions: &corev1.EndpointConditions{}}},
	}
	for _, ready := range []*bool{nil, &yes, &no} {
		for _, serving := range []*bool{nil, &yes, &no} {
			for _, terminating := range []*bool{nil, &yes, &no} {
				s.Endpoints = append(s.Endpoints, &corev1.Endpoint{
					Addresses: []string{"10.0.0.1", "10.0.0.2"}, NodeName: &node, Weight: &weight,
					Conditions: &corev1.EndpointConditions{Ready: ready, Serving: serving, Terminating: terminating},
					TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "web-1"},
					Hints:      &corev1.EndpointHints{ForZones: []*corev1.ForZone{{Name: "a"}}},
				})
			}
		}
	}
	was := proto.CloneOf(s)
	New("n1", nil).Trim(s)
	if diff := cmp.Diff(was, s, protocmp.Transform()); diff != "" {
		t.Errorf("what a plan asks for has changed (-was +is):\n%s", diff)
	}
	more := &corev1.EndpointSlice{Endpoints: []*corev1.Endpoint{{Zone: &node, Hostname: &node, DeprecatedTopology: map[string]string{"a": "b"}}}}
	New("n1", nil).Trim(more)
	if !proto.Equal(more.GetEndpoints()[0], &corev1.Endpoint{}) {
		t.Errorf("what no plan asks for was kept: %v", more)
	}
}

// TestUnchangedSlicesAreNotHandedOver checks that the follower does not report a slice as changed
// because the snapshot has all of its fields while the follower's copy is trimmed.
func TestUnchangedSlicesAreNotHandedOver(t *testing.T) {
	zone := "a"
	log := changestest.New(t)
	log.Put(&corev1.EndpointSlice{
		Metadata:  &corev1.ObjectMeta{Namespace: "shop", Name: "web-1"},
		Endpoints: []*corev1.Endpoint{{Addresses: []string{"10.0.0.1"}, Zone: &zone}},
	})
	v := New("n1", nil)
	var handed atomic.Int64
	follower := log.Follow(changes.FollowerConfig{
		Kinds: Kinds, Keep: v.Accepts, Trim: v.Trim, BookmarkEvery: 10 * time.Millisecond,
		Apply: func(_ context.Context, batch []changes.Change, revision uint64) error {
			handed.Add(int64(len(batch)))
			v.Apply(batch, revision)
			return nil
		},
	})
	log.WaitFor(follower)
	if _, err := log.NewEpoch(t.Context()); err != nil {
		t.Fatal(err)
	}
	log.Put(&corev1.Node{Metadata: &corev1.ObjectMeta{Name: "n1"}})
	log.WaitFor(follower)
	if got := handed.Load(); got != 2 {
		t.Errorf("%d changes were handed over, want 2: the slice and the node, once each", got)
	}
}
