package allocation

import (
	"fmt"
	"net/netip"

	allocatorv1 "portolan.dev/api/allocator/v1"
	"portolan.dev/services/spec"

	"portolan.dev/allocator/pool"
)

// Unusable returns the reason why objects cannot have addresses of a range, with the remedy, or "" if they can. The
// registry would refuse each service that gets such an address. local is set in an installation on one machine, where
// load balancers have loopback addresses.
func Unusable(use allocatorv1.Use, space pool.Space, local bool) string {
	if !space.IsAddresses() {
		return ""
	}
	kind := spec.SpecialRange(space.Prefix(), func(first netip.Addr) bool {
		switch {
		case first.IsLoopback(): // of backends the registry decides, see its loopback-endpoints
			return local || use != allocatorv1.Use_USE_LOAD_BALANCER_IP
		case first.IsLinkLocalUnicast():
			return use == allocatorv1.Use_USE_CLUSTER_IP
		default:
			return false
		}
	})
	if kind == "" {
		return ""
	}
	return fmt.Sprintf("%s has addresses that are %s, which cannot be %s: choose a range of your network, such as 192.0.2.0/24 or fd00:98::/112", space, kind, useName(use))
}

// IsLocal reports whether a range shows that the installation is on one machine: its virtual IPs or its pods have loopback
// addresses.
func IsLocal(use allocatorv1.Use, space pool.Space) bool {
	return (use == allocatorv1.Use_USE_CLUSTER_IP || use == allocatorv1.Use_USE_POD_IP) && space.IsAddresses() && space.Prefix().Addr().IsLoopback()
}
