package workload

import (
	"context"
	"time"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/app"
)

// watchRetry is the pause before a broken watch is started again.
const watchRetry = time.Second

// deletions returns a channel that gets the program's remaining time when another client deletes
// the pod. It keeps trying until ctx ends if the registry does not answer.
func (r *Runner) deletions(ctx context.Context) <-chan time.Duration {
	deleted := make(chan time.Duration, 1)
	go func() {
		for {
			if left, found := r.watch(ctx); found {
				deleted <- left
				return
			}
			if !app.Pause(ctx, watchRetry) {
				return
			}
		}
	}()
	return deleted
}

// watch follows the pod until it is deleted or the stream ends. It reports whether the pod was
// deleted.
func (r *Runner) watch(ctx context.Context) (left time.Duration, deleted bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	meta := r.pod.GetMetadata()
	stream, err := r.pods.WatchPods(ctx, &registryv1.WatchPodsRequest{
		Namespace: meta.GetNamespace(), FieldSelector: "metadata.name=" + meta.GetName(),
	})
	if err != nil {
		return 0, false
	}
	for there := false; ; {
		batch, err := stream.Recv()
		if err != nil {
			return 0, false
		}
		for _, change := range batch.GetChanges() {
			if change.GetPod().GetMetadata().GetUid() != meta.GetUid() {
				continue
			}
			if change.GetType() == registryv1.ChangeType_CHANGE_TYPE_DELETE {
				return r.Options.Grace + r.Options.DrainDelay, true
			}
			if terminating := change.GetPod(); terminating.GetMetadata().GetDeletionTimestamp() != nil {
				return graceOf(terminating), true
			}
			there = true
		}
		if batch.GetSynced() && !there {
			return r.Options.Grace + r.Options.DrainDelay, true // deleted between two watches
		}
	}
}

// graceOf returns the grace period, starting now. It does not use the deletion timestamp, because
// the clocks of two machines differ.
func graceOf(pod *corev1.Pod) time.Duration {
	return time.Duration(pod.GetMetadata().GetDeletionGracePeriodSeconds()) * time.Second
}
