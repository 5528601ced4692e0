package controller

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/proto/portolan/core/v1"
)

// TestTriggerIsTheRequestToEnd: a pod's deletion timestamp lies in the future by its grace period; the change happened before.
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
