package allocation

import (
	"slices"
	"time"

	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// protocolSlot returns the slot of a claim's value for a protocol that is not its first one.
func protocolSlot(slot string, protocol pool.Protocol) string { return slot + "&" + protocol.String() }

// protocols returns the protocols for which the claim needs a port.
func (w *ClaimRequest) protocols() []pool.Protocol {
	if len(w.Protocols) == 0 {
		return pool.Protocols()
	}
	return w.Protocols
}

// forProtocol returns " for UDP" for a value of UDP only.
func forProtocol(v pool.Value) string {
	if v.Protocol() == pool.AllProtocols {
		return ""
	}
	return " for " + v.Protocol().String()
}

// IsPerProtocol reports whether a port is of a pool with one value for each protocol.
func (t *Table) IsPerProtocol(port pool.Value) bool {
	return slices.ContainsFunc(t.pools, func(e *poolState) bool { return e.PerProtocol && e.values.Space().HasNumber(port) })
}

// pick returns a value of the best class that is not in use.
func (e *poolState) pick(now time.Time, protocols []pool.Protocol) (pool.Value, pool.Class, error) {
	if !e.PerProtocol {
		return e.values.Pick(now)
	}
	number, class, err := e.values.PickFor(now, protocols)
	return pool.PortValue(number), class, err
}

// allocatePort allocates a number for all protocols of a claim, in a pool with values for each
// protocol. The owner may have some of the values already.
func (t *Table) allocatePort(now time.Time, owner store.Owner, w ClaimRequest, e *poolState, number uint16, c *Change) (ClaimResult, *Failure) {
	var result ClaimResult
	slot := w.Slot
	for i, protocol := range w.protocols() {
		if w.Slot = slot; i > 0 {
			w.Slot = protocolSlot(slot, protocol)
		}
		got, failure := t.allocateFrom(now, owner, w, e, pool.PortValueFor(number, protocol), c)
		if failure != nil {
			return ClaimResult{}, failure
		}
		if i == 0 {
			result = got
		}
		result.New = result.New || got.New
	}
	result.Static = false
	return result, nil
}

// withProtocols returns the slots, each followed by the slots of its values for further protocols.
func (t *Table) withProtocols(uid string, slots []string) []string {
	var all []string
	for _, slot := range slots {
		all = append(all, slot)
		has := t.claimsOf(uid, slot)
		if len(has) == 0 || has[0].allocation.value.Protocol() == pool.AllProtocols {
			continue
		}
		for _, protocol := range pool.Protocols() {
			if further := protocolSlot(slot, protocol); len(t.claimsOf(uid, further)) > 0 {
				all = append(all, further)
			}
		}
	}
	return all
}
