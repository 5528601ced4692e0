package kube

import (
	"math"
	"strconv"

	coordinationv1 "k8s.io/api/coordination/v1"

	corev1 "portolan.dev/api/core/v1"
)

func (r *reader) lease(from *coordinationv1.Lease) *corev1.Lease {
	to := &corev1.Lease{Metadata: r.meta(&from.ObjectMeta), Spec: &corev1.LeaseSpec{
		HolderIdentity: value(from.Spec.HolderIdentity), LeaseDurationSeconds: value(from.Spec.LeaseDurationSeconds),
		AcquireTime: readMicroTime(from.Spec.AcquireTime), RenewTime: readMicroTime(from.Spec.RenewTime),
		LeaseTransitions: value(from.Spec.LeaseTransitions),
	}}
	if epoch := r.takeNumber(to.Metadata, AnnotationEpoch, math.MaxUint64); epoch != nil {
		to.Spec.Epoch = *epoch
	}
	if shards := r.takeNumber(to.Metadata, AnnotationShards, math.MaxInt32); shards != nil {
		to.Spec.Shards = int32(*shards) // #nosec G115 -- takeNumber has the limit
	}
	return to
}

func writeLease(from *corev1.Lease, to *coordinationv1.Lease) {
	to.ObjectMeta = WriteMeta(from.GetMetadata())
	s := from.GetSpec()
	to.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: unlessZero(s.GetHolderIdentity()), LeaseDurationSeconds: unlessZero(s.GetLeaseDurationSeconds()),
		AcquireTime: writeMicroTime(s.GetAcquireTime()), RenewTime: writeMicroTime(s.GetRenewTime()),
		LeaseTransitions: unlessZero(s.GetLeaseTransitions()),
	}
	if s.GetEpoch() != 0 {
		put(&to.ObjectMeta, AnnotationEpoch, strconv.FormatUint(s.GetEpoch(), 10))
	}
	if s.GetShards() != 0 {
		put(&to.ObjectMeta, AnnotationShards, strconv.FormatInt(int64(s.GetShards()), 10))
	}
}
