package spec

import (
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
)

// ValidateLease checks a new lease.
func ValidateLease(lease *corev1.Lease, _ Rules) apierr.Violations {
	var c checks
	spec := lease.GetSpec()
	switch seconds := spec.GetLeaseDurationSeconds(); {
	case seconds < 0:
		c.invalid("spec.leaseDurationSeconds", seconds, "may not be negative")
	case seconds == 0 && spec.GetHolderIdentity() != "":
		c.required("spec.leaseDurationSeconds", "says how long the holder's word counts")
	}
	if spec.GetLeaseTransitions() < 0 {
		c.invalid("spec.leaseTransitions", spec.GetLeaseTransitions(), "may not be negative")
	}
	if spec.GetShards() < 0 {
		c.invalid("spec.shards", spec.GetShards(), "may not be negative")
	}
	return c.found
}
