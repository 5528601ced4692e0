package verifier

import (
	"slices"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/spec"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// sharing holds the services that can have a shared load-balancer address. It is an index, because a look through
// all services for each shared address would take too long in a large installation.
type sharing struct {
	byOwner   map[string][]*corev1.Service     // services that share addresses, by the UID of the share
	byAddress map[pool.Value][]*corev1.Service // services with the address in their status
}

// newSharing returns an index of services.
func newSharing(services []*corev1.Service) *sharing {
	s := &sharing{byOwner: map[string][]*corev1.Service{}, byAddress: map[pool.Value][]*corev1.Service{}}
	for _, svc := range services {
		if owner := spec.OwnerOfAddresses(svc); owner.Kind == spec.KindAddressShare {
			s.byOwner[owner.UID] = append(s.byOwner[owner.UID], svc)
		}
		for _, ingress := range svc.GetStatus().GetLoadBalancer().GetIngress() {
			if address, err := pool.ParseAddr(ingress.GetIp()); err == nil {
				s.byAddress[address] = append(s.byAddress[address], svc)
			}
		}
	}
	return s
}

// classify classifies an address that services share. If only services that have left the share have it in their
// status, it is promised to them, until lbctl has moved the address or has given them another one.
func (s *sharing) classify(h allocation.Allocation) ownership {
	verdict := unowned
	for _, svc := range s.byAddress[h.Value] {
		if spec.OwnerOfAddresses(svc).UID == h.Owner.UID {
			return owned
		}
		verdict = promised
	}
	for _, svc := range s.byOwner[h.Owner.UID] {
		if hasValue(svc, h.Use, h.Value) {
			return promised
		}
	}
	return verdict
}

// sharedSlot is a slot of a share.
type sharedSlot struct{ uid, slot string }

// movingSlots returns the slots of shares in which more than one address is in use. The services of such a share
// move to another address one after the other. lbctl confirms the new address when all of them have it. An earlier
// confirmation would release the address that some of them still have.
func (s *sharing) movingSlots(all []allocation.Allocation) map[sharedSlot]bool {
	used, moving := map[sharedSlot]bool{}, map[sharedSlot]bool{}
	for _, h := range all {
		if h.Owner.Kind != spec.KindAddressShare || s.classify(h) != owned {
			continue
		}
		for _, c := range h.Claims {
			slot := sharedSlot{h.Owner.UID, c.Slot}
			moving[slot] = used[slot]
			used[slot] = true
		}
	}
	return moving
}

// maxShared is more than the number of addresses that a share can have: 8 of each family, and as many again while
// its services move.
const maxShared = 64

// holdsAnother reports whether another address in the same slot of a share is in use. The services of the share
// are moving from one address to the other then. One slot keeps one confirmed address, so the second address has
// to be claimed in another slot.
func (v *Verifier) holdsAnother(shared *sharing, slot sharedSlot, address pool.Value) bool {
	for _, held := range v.cfg.Engine.ListBy(slot.uid, store.Query{Limit: maxShared}) {
		claims := slices.ContainsFunc(held.Claims, func(c store.Claim) bool { return c.Slot == slot.slot })
		if claims && held.Value != address && shared.classify(allocation.Allocation{Value: held.Value, Owner: held.Owner, Use: allocatorv1.Use_USE_LOAD_BALANCER_IP}) == owned {
			return true
		}
	}
	return false
}
