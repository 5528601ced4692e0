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

// differences describes the differences between the allocations and the values of services at rest.
func (c *cluster) differences() string {
	ownership := c.ownership
	allocated := c.disk.Allocations()
	ownership.mu.Lock()
	defer ownership.mu.Unlock()
	var b strings.Builder
	for _, value := range slices.Sorted(maps.Keys(ownership.owners)) {
		if a, ok := allocated[value]; !ok || a.Owner.UID != ownership.owners[value] {
			fmt.Fprintf(&b, "the service %s has %s, which is allocated to %q\n", ownership.owners[value], value, a.Owner.UID)
		}
	}
	for _, value := range slices.Sorted(maps.Keys(allocated)) {
		a := allocated[value]
		if ownership.owners[value] != a.Owner.UID {
			fmt.Fprintf(&b, "%s is allocated to the service %s, which does not have it\n", value, a.Owner.UID)
		}
		for _, claim := range a.Claims {
			if !claim.Confirmed {
				fmt.Fprintf(&b, "%s is allocated to slot %s of the service %s, but not confirmed\n", value, claim.Slot, a.Owner.UID)
			}
		}
	}
	return b.String()
}

// checkCalls checks the outcomes of the clients' calls against the log.
func (c *cluster) checkCalls() error {
	h := c.recorder.History()
	h.Log = history.Log{Changes: c.ownership.changes(), ReadAt: time.Now()}
	var found []error
	for _, f := range check.Run(h, check.Writes{}, check.Order{}, check.Linearizable{}) {
		found = append(found, fmt.Errorf("%s: %s %s", f.Check, f.Object, f.Problem))
	}
	return errors.Join(found...)
}
