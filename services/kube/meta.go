package kube

import (
	"maps"
	"strconv"

	"google.golang.org/protobuf/types/known/timestamppb"
	kubev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
)

// ReadMeta converts the metadata of an object, as [Codec.Read] does.
func ReadMeta(from *metav1.ObjectMeta, messages *Messages) (*corev1.ObjectMeta, apierr.Violations) {
	r := &reader{messages: messages}
	to := r.meta(from)
	return to, r.violations
}

func (r *reader) meta(from *metav1.ObjectMeta) *corev1.ObjectMeta {
	to := &corev1.ObjectMeta{
		Name:                       from.Name,
		GenerateName:               from.GenerateName,
		Namespace:                  from.Namespace,
		Uid:                        string(from.UID),
		ResourceVersion:            r.version("metadata.resourceVersion", from.ResourceVersion),
		Generation:                 from.Generation,
		CreationTimestamp:          readTime(from.CreationTimestamp),
		DeletionGracePeriodSeconds: from.DeletionGracePeriodSeconds,
		Labels:                     nonEmpty(from.Labels),
		Annotations:                maps.Clone(nonEmpty(from.Annotations)), // Portolan's are taken from it
		Finalizers:                 from.Finalizers,
	}
	if from.DeletionTimestamp != nil {
		to.DeletionTimestamp = readTime(*from.DeletionTimestamp)
	}
	to.OwnerReferences = each(from.OwnerReferences, func(_ int, owner metav1.OwnerReference) *corev1.OwnerReference {
		return &corev1.OwnerReference{
			ApiVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, Uid: string(owner.UID),
			Controller: owner.Controller, BlockOwnerDeletion: owner.BlockOwnerDeletion,
		}
	})
	return to
}

// WriteMeta converts the metadata of an object, without the owners of its fields.
func WriteMeta(from *corev1.ObjectMeta) metav1.ObjectMeta {
	to := metav1.ObjectMeta{
		Name:              from.GetName(),
		GenerateName:      from.GetGenerateName(),
		Namespace:         from.GetNamespace(),
		UID:               types.UID(from.GetUid()),
		ResourceVersion:   writeVersion(from.GetResourceVersion()),
		Generation:        from.GetGeneration(),
		CreationTimestamp: writeTime(from.GetCreationTimestamp()),
		Labels:            nonEmpty(from.GetLabels()),
		Annotations:       maps.Clone(nonEmpty(from.GetAnnotations())), // Portolan's are added to it
		Finalizers:        from.GetFinalizers(),
	}
	if from == nil {
		return to
	}
	to.DeletionGracePeriodSeconds = from.DeletionGracePeriodSeconds
	if from.GetDeletionTimestamp() != nil {
		to.DeletionTimestamp = new(writeTime(from.GetDeletionTimestamp()))
	}
	to.OwnerReferences = each(from.GetOwnerReferences(), func(_ int, owner *corev1.OwnerReference) metav1.OwnerReference {
		return metav1.OwnerReference{
			APIVersion: owner.GetApiVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: types.UID(owner.GetUid()),
			Controller: owner.Controller, BlockOwnerDeletion: owner.BlockOwnerDeletion,
		}
	})
	return to
}

func writeVersion(version uint64) string {
	if version == 0 {
		return ""
	}
	return strconv.FormatUint(version, 10)
}

func readTime(from metav1.Time) *timestamppb.Timestamp {
	if from.IsZero() {
		return nil
	}
	return timestamppb.New(from.Time)
}

func writeTime(from *timestamppb.Timestamp) metav1.Time {
	if from == nil {
		return metav1.Time{}
	}
	return metav1.Time{Time: from.AsTime()}
}

func readMicroTime(from *metav1.MicroTime) *timestamppb.Timestamp {
	if from == nil || from.IsZero() {
		return nil
	}
	return timestamppb.New(from.Time)
}

func writeMicroTime(from *timestamppb.Timestamp) *metav1.MicroTime {
	if from == nil {
		return nil
	}
	return &metav1.MicroTime{Time: from.AsTime()}
}

func (r *reader) reference(path string, from *kubev1.ObjectReference) *corev1.ObjectReference {
	if from == nil || *from == (kubev1.ObjectReference{}) {
		return nil
	}
	return &corev1.ObjectReference{
		Kind: from.Kind, Namespace: from.Namespace, Name: from.Name, Uid: string(from.UID), ApiVersion: from.APIVersion,
		ResourceVersion: r.version(path+".resourceVersion", from.ResourceVersion), FieldPath: from.FieldPath,
	}
}

func writeReference(from *corev1.ObjectReference) *kubev1.ObjectReference {
	if from == nil {
		return nil
	}
	return &kubev1.ObjectReference{
		Kind: from.GetKind(), Namespace: from.GetNamespace(), Name: from.GetName(), UID: types.UID(from.GetUid()), APIVersion: from.GetApiVersion(),
		ResourceVersion: writeVersion(from.GetResourceVersion()), FieldPath: from.GetFieldPath(),
	}
}
