package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"portolan.dev/faults/check"
	"portolan.dev/faults/history"
)

// differences describes the differences between the allocator's holdings and the values that
// services have, at rest.
func (c *cluster) differences() string {
	ownership := c.ownership
	allocated := c.disk.Allocations()
	ownership.mu.Lock()
	defer ownership.mu.Unlock()
	var b strings.Builder
	for _, value := range slices.Sorted(maps.Keys(ownership.owners)) {
		if h, ok := allocated[value]; !ok || h.Owner.UID != ownership.owners[value] {
			fmt.Fprintf(&b, "the service %s has %s, the allocator holds it for %q\n", ownership.owners[value], value, h.Owner.UID)
		}
	}
	for _, value := range slices.Sorted(maps.Keys(allocated)) {
		h := allocated[value]
		if ownership.owners[value] != h.Owner.UID {
			fmt.Fprintf(&b, "the allocator holds %s for the service %s, which does not have it\n", value, h.Owner.UID)
		}
		for _, claim := range h.Claims {
			if !claim.Confirmed {
				fmt.Fprintf(&b, "the allocator holds %s for slot %s of the service %s, not confirmed\n", value, claim.Slot, h.Owner.UID)
			}
		}
	}
	return b.String()
}

// checkCalls compares the outcomes of the clients' calls with the log.
func (c *cluster) checkCalls() error {
	h := c.recorder.History()
	h.Log = history.Log{Changes: c.ownership.changes(), Read: time.Now()}
	var found []error
	for _, f := range check.Run(h, check.Writes{}, check.Order{}, check.Linearizable{}) {
		found = append(found, fmt.Errorf("%s: %s %s", f.Check, f.Object, f.Problem))
	}
	return errors.Join(found...)
}
