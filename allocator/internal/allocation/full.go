package allocation

import (
	"fmt"
	"strings"

	allocatorv1 "portolan.dev/api/allocator/v1"
)

// noneFree returns the failure of a claim of any value if no pool has a free value. The claim may still be
// served later if values of the pools are in reserves.
func noneFree(pools []*poolState) *Failure {
	var reserved uint64
	texts := make([]string, len(pools))
	for i, e := range pools {
		texts[i] = e.usage()
		if e.State == allocatorv1.PoolState_POOL_STATE_ACTIVE {
			reserved += e.reserved.all
		}
	}
	if reserved > 0 {
		return &Failure{
			Pool: pools[0].Name, Reason: allocatorv1.FailureReason_FAILURE_REASON_AT_HAND,
			Message: fmt.Sprintf("no value is free, and registries that have not returned them have %d at hand: %s; try again", reserved, strings.Join(texts, "; ")),
		}
	}
	return &Failure{
		Pool: pools[0].Name, Reason: allocatorv1.FailureReason_FAILURE_REASON_FULL,
		Message: "range is full: " + strings.Join(texts, "; "),
	}
}

// usage describes why a pool has no free value.
func (e *poolState) usage() string {
	name := fmt.Sprintf("pool %q (%s)", e.Name, e.Range)
	switch e.State {
	case allocatorv1.PoolState_POOL_STATE_DRAINING:
		return name + " is draining"
	case allocatorv1.PoolState_POOL_STATE_RETIRED:
		return name + " is retired"
	}
	size, band := e.values.Space().Size(), e.values.Band()
	used, lower := e.values.Used()-e.reserved.all, e.values.LowerUsed()-e.reserved.lower
	switch {
	case e.AvoidBuggyIPs && used < size:
		return fmt.Sprintf("%s: %d of %d values are in use; the others end in .0 or .255 and are only for those who ask for them", name, used, size)
	case e.reserved.all > 0:
		return fmt.Sprintf("%s: %d of %d values are in use and %d at hand", name, used, size, e.reserved.all)
	case band == 0:
		return fmt.Sprintf("%s: all %d values are in use", name, size)
	default:
		return fmt.Sprintf("%s: all %d values are in use, %d of the static band and %d of the dynamic band", name, size, lower, used-lower)
	}
}
