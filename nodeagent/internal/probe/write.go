package probe

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// The conditions that a prober writes.
const (
	containersReadyType = "ContainersReady"
)

// The reasons why a container is not ready before the first result.
var (
	errNotProbed   = errors.New("no probe has succeeded yet")
	errNotReported = errors.New("no client has reported yet that it is ready")
)

// Writer stores the status of a pod as modified by change. It may call change several times, each
// time with the current pod. If change returns false, there is nothing to write.
type Writer func(ctx context.Context, pod *corev1.Pod, change func(*corev1.Pod) bool) error

// RegistryWriter returns a Writer that reads the pod from the registry, changes it, and writes it
// at the version read. It repeats this if another client wrote in between. It writes nothing if the
// pod is gone or is another incarnation.
func RegistryWriter(client registryv1.PodServiceClient) Writer {
	return func(ctx context.Context, pod *corev1.Pod, change func(*corev1.Pod) bool) error {
		meta := pod.GetMetadata()
		for {
			res, err := client.GetPod(ctx, &registryv1.GetPodRequest{Namespace: meta.GetNamespace(), Name: meta.GetName()})
			if status.Code(err) == codes.NotFound {
				return nil
			}
			if err != nil {
				return err
			}
			now := res.GetPod()
			if now.GetMetadata().GetUid() != meta.GetUid() || !change(now) {
				return nil
			}
			_, err = client.UpdatePodStatus(ctx, &registryv1.UpdatePodStatusRequest{Pod: now})
			switch status.Code(err) {
			case codes.Aborted:
				continue
			case codes.NotFound:
				return nil
			}
			return err
		}
	}
}

// write keeps the registry's conditions equal to the pod's readiness until ctx is done.
func (pp *podProber) write(ctx context.Context) {
	pause := pp.prober.opts.RetryMin
	outage := obs.Outage{Log: pp.prober.opts.Log, Down: "readiness not reported, still trying", Up: "readiness reported"}
	for {
		select {
		case <-ctx.Done():
			return
		case <-pp.wake:
		}
		err := pp.prober.opts.Guard.Do(stepWrite, guard.Object(pp.key), func() error { return pp.writeOnce(ctx) })
		if err == nil {
			outage.Over("pod", pp.key.Path())
			pause = pp.prober.opts.RetryMin
			continue
		}
		if ctx.Err() != nil {
			return
		}
		outage.Failed(err, "pod", pp.key.Path())
		if !app.Pause(ctx, pause) {
			return
		}
		pause = min(2*pause, pp.prober.opts.RetryMax)
		pp.wake.Send()
	}
}

// writeOnce writes the pod's readiness unless the registry already has it.
func (pp *podProber) writeOnce(ctx context.Context) error {
	pod, v := pp.readiness()
	if conditionsMatch(pod, v) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return pp.prober.opts.Write(ctx, pod, func(now *corev1.Pod) bool {
		if conditionsMatch(now, v) {
			return false
		}
		set(now, containersReadyType, v.containersReady, v)
		set(now, object.ConditionReady, v.ready, v)
		return true
	})
}

// conditionsMatch reports whether a pod's conditions already match its readiness. A pod without
// conditions never matches, so that even the first result "not ready" is written. Messages are compared
// only if the stored message is about a container without a result, because messages of checks change often.
func conditionsMatch(pod *corev1.Pod, v podReadiness) bool {
	c := object.Condition(pod.GetStatus().GetConditions(), object.ConditionReady)
	if c == nil {
		return false
	}
	said := c.GetStatus() == corev1.ConditionStatus_CONDITION_STATUS_TRUE
	return said == v.ready && (said || c.GetReason() == v.reason && !outdated(c.GetMessage(), v.message))
}

// outdated reports whether the stored message says that a container has no result yet, although it has one
// now.
func outdated(stored, message string) bool {
	for _, early := range []error{errNotProbed, errNotReported} {
		if strings.Count(stored, early.Error()) > strings.Count(message, early.Error()) {
			return true
		}
	}
	return false
}

func set(pod *corev1.Pod, kind string, holds bool, v podReadiness) {
	if pod.Status == nil {
		pod.Status = &corev1.PodStatus{}
	}
	c := object.Condition(pod.GetStatus().GetConditions(), kind)
	if c == nil {
		c = &corev1.Condition{Type: kind}
		pod.Status.Conditions = append(pod.Status.Conditions, c)
	}
	want := corev1.ConditionStatus_CONDITION_STATUS_FALSE
	c.Reason, c.Message = v.reason, spec.ShortenMessage(v.message)
	if holds {
		want, c.Reason, c.Message = corev1.ConditionStatus_CONDITION_STATUS_TRUE, "", ""
	}
	if c.GetStatus() != want {
		c.Status, c.LastTransitionTime = want, timestamppb.Now()
	}
}
