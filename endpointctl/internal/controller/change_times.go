package controller

import (
	"sync"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// changeTimes holds, for each service, the versions of its pods at its last sync. From these it computes
// the time since which the changes of a sync have been waiting. It is safe for concurrent use.
type changeTimes struct {
	mu   sync.Mutex
	seen map[object.Name]seenChanges // guarded by mu
}

// seenChanges holds the time at which a service was created, and its pods, ordered by name.
type seenChanges struct {
	service time.Time
	pods    []*corev1.Pod
}

func newChangeTimes() *changeTimes { return &changeTimes{seen: map[object.Name]seenChanges{}} }

func (t *changeTimes) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen = map[object.Name]seenChanges{}
}

func (t *changeTimes) forget(key object.Name) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.seen, key)
}

// compute returns the time of the earliest change that no sync has seen, as RFC 3339 with
// nanoseconds. It returns "" if there is none. The pods are ordered by name. The caller calls done
// when the sync has succeeded.
func (t *changeTimes) compute(key object.Name, svc *corev1.Service, pods []*corev1.Pod) (trigger string, done func()) {
	now := seenChanges{service: svc.GetMetadata().GetCreationTimestamp().AsTime(), pods: pods}
	t.mu.Lock()
	before := t.seen[key]
	t.mu.Unlock()
	var first time.Time
	note := func(at, last time.Time) {
		if at.After(last) && at.Unix() != 0 && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	note(now.service, before.service)
	known := before.pods
	for _, pod := range pods {
		for len(known) > 0 && known[0] != pod && known[0].GetMetadata().GetName() < pod.GetMetadata().GetName() {
			known = known[1:]
		}
		switch {
		case len(known) == 0 || known[0].GetMetadata().GetName() != pod.GetMetadata().GetName():
			note(changedAt(pod), time.Time{})
		case known[0] != pod:
			note(changedAt(pod), changedAt(known[0]))
		}
	}
	if !first.IsZero() {
		trigger = first.UTC().Format(time.RFC3339Nano)
	}
	return trigger, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.seen[key] = now
	}
}

// changedAt returns the time at which a pod last became ready or not ready, or was asked to end.
func changedAt(pod *corev1.Pod) time.Time {
	var at time.Time
	if c := object.Condition(pod.GetStatus().GetConditions(), object.ConditionReady); c.GetLastTransitionTime() != nil {
		at = c.GetLastTransitionTime().AsTime()
	}
	if ends := pod.GetMetadata().GetDeletionTimestamp(); ends != nil {
		grace := time.Duration(pod.GetMetadata().GetDeletionGracePeriodSeconds()) * time.Second
		if asked := ends.AsTime().Add(-grace); asked.After(at) {
			at = asked
		}
	}
	return at
}
