package spec

import (
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// ReserveLeasePrefix is the beginning of the names of the Leases in the namespace default by which
// registry processes fence the values that the allocator has granted them in advance.
const ReserveLeasePrefix = "portolan-reserve-"

// IsReserveLease reports whether a Lease fences the values of a registry process.
func IsReserveLease(l *corev1.Lease) bool {
	meta := l.GetMetadata()
	return meta.GetNamespace() == object.DefaultNamespace && strings.HasPrefix(meta.GetName(), ReserveLeasePrefix)
}
