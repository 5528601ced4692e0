package controller

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
)

// TestTriggerIsTheRequestToEnd checks that the change is the request to end. A pod's deletion
// timestamp is later than the request by the grace period.
func TestTriggerIsTheRequestToEnd(t *testing.T) {
	asked := time.Date(2026, 11, 22, 1, 2, 3, 0, time.UTC)
	ready := &corev1.Condition{Type: "Ready", LastTransitionTime: timestamppb.New(asked.Add(-time.Minute))}
	got := changedAt(&corev1.Pod{
		Metadata: &corev1.ObjectMeta{DeletionTimestamp: timestamppb.New(asked.Add(30 * time.Second)), DeletionGracePeriodSeconds: new(int64(30))},
		Status:   &corev1.PodStatus{Conditions: []*corev1.Condition{ready}},
	})
	if !got.Equal(asked) {
		t.Errorf("the pod changed at %s, want %s", got, asked)
	}
}

// TestOnlyReadinessAndTheRequestToEndAreChanges checks that other conditions of a pod do not count,
// because they change no endpoint.
func TestOnlyReadinessAndTheRequestToEndAreChanges(t *testing.T) {
	at := time.Date(2026, 11, 22, 1, 2, 3, 0, time.UTC)
	condition := func(kind string, at time.Time) *corev1.Condition {
		return &corev1.Condition{Type: kind, LastTransitionTime: timestamppb.New(at)}
	}
	for name, c := range map[string]struct {
		conditions []*corev1.Condition
		ends       *timestamppb.Timestamp
		want       time.Time
	}{
		"nothing":            {nil, nil, time.Time{}},
		"ready":              {[]*corev1.Condition{condition("Ready", at)}, nil, at},
		"ready at no time":   {[]*corev1.Condition{{Type: "Ready"}}, nil, time.Time{}},
		"other conditions":   {[]*corev1.Condition{condition("Initialized", at.Add(time.Hour)), condition("Ready", at), condition("Scheduled", at.Add(time.Hour))}, nil, at},
		"ready after ending": {[]*corev1.Condition{condition("Ready", at)}, timestamppb.New(at.Add(-time.Minute)), at},
		"ending after ready": {[]*corev1.Condition{condition("Ready", at)}, timestamppb.New(at.Add(time.Minute)), at.Add(time.Minute)},
	} {
		got := changedAt(&corev1.Pod{Metadata: &corev1.ObjectMeta{DeletionTimestamp: c.ends}, Status: &corev1.PodStatus{Conditions: c.conditions}})
		if !got.Equal(c.want) {
			t.Errorf("%s: the pod changed at %s, want %s", name, got, c.want)
		}
	}
}
