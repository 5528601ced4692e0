package access

import (
	"context"
	"fmt"
	"strings"

	allocatorv1 "portolan.dev/api/allocator/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/spec"
)

// CheckClaim returns an error if the caller may not claim a value of this use in this slot. lbctl
// claims load-balancer addresses, in slots of its own. Other callers of Allocate may claim every value.
func CheckClaim(ctx context.Context, use allocatorv1.Use, slot string) error {
	if id, err := identity.Caller(ctx); err != nil || id.Role != identity.LBCtl {
		return nil //nolint:nilerr // without TLS there are no roles
	}
	if use != allocatorv1.Use_USE_LOAD_BALANCER_IP {
		return apierr.PermissionDenied("the role lbctl claims load-balancer addresses only")
	}
	return checkBalancerSlot(slot)
}

// CheckSettlement returns an error if the caller may not confirm or release these slots of an owner.
// values is the number of reserved values in the same call. lbctl has to name its slots, and reserves
// no values.
func CheckSettlement(ctx context.Context, slots []string, values int) error {
	if id, err := identity.Caller(ctx); err != nil || id.Role != identity.LBCtl {
		return nil //nolint:nilerr // without TLS there are no roles
	}
	if len(slots) == 0 || values > 0 {
		return apierr.PermissionDenied("the role lbctl confirms and releases load-balancer addresses only, and names their slots")
	}
	for _, slot := range slots {
		if err := checkBalancerSlot(slot); err != nil {
			return err
		}
	}
	return nil
}

func checkBalancerSlot(slot string) error {
	if strings.HasPrefix(slot, spec.BalancerSlots) {
		return nil
	}
	return apierr.PermissionDenied(fmt.Sprintf("the slots of the role lbctl begin with %q; this is %q", spec.BalancerSlots, slot))
}
