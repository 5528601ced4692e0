package reconcile

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registrar/internal/objects"
	"portolan.dev/registrar/internal/view"
	"portolan.dev/registrar/source"
	"portolan.dev/services/object"
)

// attempts limits how often a write of a pod is repeated because of a conflict, such as with the node agent,
// which writes the readiness.
const attempts = 3

// sync makes a pod equal to its workload, and returns the problems of the workload. If w is nil, the pod has no
// workload, and is removed.
func (r *Reconciler) sync(ctx context.Context, name object.Name, w *wanted) ([]source.Problem, error) {
	if w == nil {
		return nil, r.remove(ctx, name)
	}
	service, err := r.service(ctx, w.workload)
	if err != nil {
		return nil, err
	}
	want := r.cfg.Objects.Pod(w.from, w.workload, service)
	return named(w.from, r.cfg.Objects.Check(w.workload, service)), r.register(ctx, name, w.workload, want)
}

// remove deletes a pod without a workload.
func (r *Reconciler) remove(ctx context.Context, name object.Name) error {
	pod := r.pod(name)
	if pod == nil || !r.isKnownToBeGone(pod) {
		return nil
	}
	return r.delete(ctx, pod, proto.Int64(0))
}

// isKnownToBeGone reports whether the source of a pod without a workload has reported all workloads, or is not
// configured.
func (r *Reconciler) isKnownToBeGone(pod *corev1.Pod) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	state, configured := r.sources[pod.GetMetadata().GetLabels()[object.LabelSource]]
	return !configured || !state.reported.IsZero()
}

// delete deletes a pod. With grace nil, the pod drains for its own grace period.
func (r *Reconciler) delete(ctx context.Context, pod *corev1.Pod, grace *int64) error {
	meta := pod.GetMetadata()
	res, err := r.pods.DeletePod(ctx, &registryv1.DeletePodRequest{
		Namespace: meta.GetNamespace(), Name: meta.GetName(), Uid: meta.GetUid(), GracePeriodSeconds: grace,
	})
	switch status.Code(err) {
	case codes.OK:
		if grace == nil {
			r.wrote(res.GetPod())
		}
		r.cfg.Log.Info("pod deleted", "pod", object.NameOf(pod).String(), "drains", grace == nil)
		return nil
	case codes.NotFound:
		return nil
	}
	return fmt.Errorf("pod %s: %w", object.NameOf(pod), err)
}

// register makes the pod equal to want, or deletes it if the workload is terminating. It replaces a pod that
// is terminating although its workload runs.
func (r *Reconciler) register(ctx context.Context, name object.Name, w *source.Workload, want *corev1.Pod) error {
	pod := r.pod(name)
	switch terminating := pod.GetMetadata().GetDeletionTimestamp() != nil; {
	case w.Terminating && (pod == nil || terminating):
		return nil
	case w.Terminating:
		return r.delete(ctx, pod, nil)
	case terminating:
		if err := r.delete(ctx, pod, proto.Int64(0)); err != nil {
			return err
		}
		pod = nil
	}
	var err error
	for range attempts {
		if pod == nil {
			if pod, err = r.create(ctx, want); err != nil {
				return err
			}
		}
		if pod, err = r.update(ctx, pod, want, w); status.Code(err) != codes.Aborted {
			return err
		}
		if pod, err = r.get(ctx, name); err != nil {
			return err
		}
	}
	return errors.New("others write the pod at the same time")
}

// create creates a pod without its status. If the pod exists and belongs to this registrar, create returns the
// existing pod.
func (r *Reconciler) create(ctx context.Context, want *corev1.Pod) (*corev1.Pod, error) {
	res, err := r.pods.CreatePod(ctx, &registryv1.CreatePodRequest{Pod: want})
	if err == nil {
		r.cfg.Log.Info("pod registered", "pod", object.NameOf(want).String())
		r.wrote(res.GetPod())
		return res.GetPod(), nil
	}
	if status.Code(err) != codes.AlreadyExists {
		return nil, err
	}
	pod, getErr := r.get(ctx, object.NameOf(want))
	if getErr != nil {
		return nil, getErr
	}
	if pod == nil || !view.OwnedBy(pod, r.cfg.Objects.Owner) {
		return nil, err
	}
	return pod, nil
}

// get reads a pod. It returns nil if the pod does not exist or the registrar may not read it.
func (r *Reconciler) get(ctx context.Context, name object.Name) (*corev1.Pod, error) {
	res, err := r.pods.GetPod(ctx, &registryv1.GetPodRequest{Namespace: name.Namespace, Name: name.Name})
	if status.Code(err) == codes.NotFound {
		return nil, nil
	}
	return res.GetPod(), err
}

// update writes the differences between pod and want. It returns the pod after the writes.
func (r *Reconciler) update(ctx context.Context, pod, want *corev1.Pod, w *source.Workload) (*corev1.Pod, error) {
	merged, changed, statusChanged := objects.Merge(pod, want, w)
	if changed {
		res, err := r.pods.UpdatePod(ctx, &registryv1.UpdatePodRequest{Pod: merged})
		if err != nil {
			return nil, err
		}
		merged.Metadata.ResourceVersion = version(res.GetPod())
		r.wrote(res.GetPod())
	}
	if !statusChanged {
		return merged, nil
	}
	res, err := r.pods.UpdatePodStatus(ctx, &registryv1.UpdatePodStatusRequest{Pod: merged})
	if err != nil {
		return nil, err
	}
	r.wrote(res.GetPod())
	return res.GetPod(), nil
}

// service returns the service of a workload. If it does not exist, service creates it, or returns nil if
// services are not created.
func (r *Reconciler) service(ctx context.Context, w *source.Workload) (*corev1.Service, error) {
	name := r.cfg.Objects.ServiceName(w)
	if svc := r.cfg.View.Service(name); svc != nil || !r.cfg.CreateServices || w.Terminating {
		return svc, nil
	}
	svc := r.cfg.Objects.Service(w)
	err := r.createService(ctx, svc)
	if status.Code(err) == codes.NotFound && r.cfg.Bound == "" {
		if err = r.createNamespace(ctx, name.Namespace); err == nil {
			err = r.createService(ctx, svc)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("service %s: %w", name, err)
	}
	return svc, nil
}

// createService creates a service. If it exists already, because another workload or node has created it at
// the same time, there is no error: the pod becomes due again when the view gets the service.
func (r *Reconciler) createService(ctx context.Context, svc *corev1.Service) error {
	_, err := r.services.CreateService(ctx, &registryv1.CreateServiceRequest{Service: svc})
	if err == nil {
		r.cfg.Log.Info("service made on demand", "service", object.NameOf(svc).String())
	}
	return unlessThere(err)
}

func (r *Reconciler) createNamespace(ctx context.Context, name string) error {
	_, err := r.namespaces.CreateNamespace(ctx, &registryv1.CreateNamespaceRequest{Namespace: r.cfg.Objects.NewNamespace(name)})
	return unlessThere(err)
}

func unlessThere(err error) error {
	if status.Code(err) == codes.AlreadyExists {
		return nil
	}
	return err
}
