package kube

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/spec"
)

// fieldsV1 is the only format of fields that Kubernetes has.
const fieldsV1 = "FieldsV1"

// ReadOwners converts the owners of an object's fields.
func ReadOwners(from []metav1.ManagedFieldsEntry) []*corev1.ManagedFields {
	return each(from, func(_ int, entry metav1.ManagedFieldsEntry) *corev1.ManagedFields {
		operation, _ := spec.ParseEnum[corev1.ManagedFieldsOperation](string(entry.Operation)) // an unknown word becomes 0, which the registry refuses
		to := &corev1.ManagedFields{
			Manager: entry.Manager, Operation: operation, ApiVersion: entry.APIVersion, Subresource: entry.Subresource,
			FieldsV1: entry.FieldsV1.GetRawBytes(),
		}
		if entry.Time != nil {
			to.Time = readTime(*entry.Time)
		}
		return to
	})
}

// writeOwners converts the owners of an object's fields.
func writeOwners(from []*corev1.ManagedFields) []metav1.ManagedFieldsEntry {
	return each(from, func(_ int, entry *corev1.ManagedFields) metav1.ManagedFieldsEntry {
		to := metav1.ManagedFieldsEntry{
			Manager: entry.GetManager(), Operation: metav1.ManagedFieldsOperationType(spec.EnumName(entry.GetOperation())), APIVersion: entry.GetApiVersion(),
			Subresource: entry.GetSubresource(), FieldsType: fieldsV1, FieldsV1: &metav1.FieldsV1{},
		}
		to.FieldsV1.SetRawBytes(entry.GetFieldsV1())
		if entry.GetTime() != nil {
			to.Time = new(writeTime(entry.GetTime()))
		}
		return to
	})
}
