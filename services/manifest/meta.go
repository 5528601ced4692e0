package manifest

import (
	"maps"
	"strconv"

	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/manifest/kube"
)

func (r *reader) meta(from kube.ObjectMeta) *corev1.ObjectMeta {
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
		Annotations:                nonEmpty(from.Annotations),
		Finalizers:                 from.Finalizers,
	}
	if from.DeletionTimestamp != nil {
		to.DeletionTimestamp = readTime(*from.DeletionTimestamp)
	}
	to.OwnerReferences = each(from.OwnerReferences, func(_ int, owner kube.OwnerReference) *corev1.OwnerReference {
		return &corev1.OwnerReference{
			ApiVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, Uid: string(owner.UID),
			Controller: owner.Controller, BlockOwnerDeletion: owner.BlockOwnerDeletion,
		}
	})
	return to
}

func writeMeta(from *corev1.ObjectMeta) kube.ObjectMeta {
	if from == nil {
		return kube.ObjectMeta{}
	}
	to := kube.ObjectMeta{
		Name:              from.GetName(),
		GenerateName:      from.GetGenerateName(),
		Namespace:         from.GetNamespace(),
		UID:               kube.UID(from.GetUid()),
		ResourceVersion:   writeVersion(from.GetResourceVersion()),
		Generation:        from.GetGeneration(),
		CreationTimestamp: writeTime(from.GetCreationTimestamp()),
		Labels:            nonEmpty(from.GetLabels()),
		// Portolan's annotations are added to it
		Annotations:                maps.Clone(nonEmpty(from.GetAnnotations())),
		Finalizers:                 from.GetFinalizers(),
		DeletionGracePeriodSeconds: from.DeletionGracePeriodSeconds,
	}
	if from.GetDeletionTimestamp() != nil {
		at := writeTime(from.GetDeletionTimestamp())
		to.DeletionTimestamp = &at
	}
	to.OwnerReferences = each(from.GetOwnerReferences(), func(_ int, owner *corev1.OwnerReference) kube.OwnerReference {
		return kube.OwnerReference{
			APIVersion: owner.GetApiVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: kube.UID(owner.GetUid()),
			Controller: owner.Controller, BlockOwnerDeletion: owner.BlockOwnerDeletion,
		}
	})
	return to
}

func nonEmpty(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}

// version reads a resource version, which is a number in Portolan and an opaque text in Kubernetes.
func (r *reader) version(path, text string) uint64 {
	if text == "" {
		return 0
	}
	version, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		r.invalid(path, text, "must be the number that Portolan gave; leave it out to change the object whatever it is now")
	}
	return version
}

func writeVersion(version uint64) string {
	if version == 0 {
		return ""
	}
	return strconv.FormatUint(version, 10)
}

func readTime(from kube.Time) *timestamppb.Timestamp {
	if from.IsZero() {
		return nil
	}
	return timestamppb.New(from.Time)
}

func writeTime(from *timestamppb.Timestamp) kube.Time {
	if from == nil {
		return kube.Time{}
	}
	return kube.Time{Time: from.AsTime()}
}

func readMicroTime(from *kube.MicroTime) *timestamppb.Timestamp {
	if from == nil || from.IsZero() {
		return nil
	}
	return timestamppb.New(from.Time)
}

func writeMicroTime(from *timestamppb.Timestamp) *kube.MicroTime {
	if from == nil {
		return nil
	}
	at := kube.MicroTime{Time: from.AsTime()}
	return &at
}

func (r *reader) reference(path string, from *kube.ObjectReference) *corev1.ObjectReference {
	if from == nil {
		return nil
	}
	return &corev1.ObjectReference{
		Kind: from.Kind, Namespace: from.Namespace, Name: from.Name, Uid: string(from.UID), ApiVersion: from.APIVersion,
		ResourceVersion: r.version(path+".resourceVersion", from.ResourceVersion), FieldPath: from.FieldPath,
	}
}

func writeReference(from *corev1.ObjectReference) *kube.ObjectReference {
	if from == nil {
		return nil
	}
	return &kube.ObjectReference{
		Kind: from.GetKind(), Namespace: from.GetNamespace(), Name: from.GetName(), UID: kube.UID(from.GetUid()), APIVersion: from.GetApiVersion(),
		ResourceVersion: writeVersion(from.GetResourceVersion()), FieldPath: from.GetFieldPath(),
	}
}
