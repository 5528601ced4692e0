package pool

import (
	"context"
	"slices"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/spec"
)

// settle confirms the addresses in the service's status. It releases the addresses that they replace, and the
// addresses that the service owned before it shared addresses. others are the other services of its share, as this
// process has admitted them and as the view shows them. An address that one of them has is not released: a slot is
// confirmed only when none of them has another address in it, and released only when none has any.
func (p *Provider) settle(ctx context.Context, svc *corev1.Service, owner spec.AddressOwner, granted []wish, others []*corev1.Service) error {
	var confirm []string
	unused := allSlots()
	for _, g := range granted {
		unused = slices.DeleteFunc(unused, func(slot string) bool { return slot == g.slot })
		if !slices.ContainsFunc(others, func(other *corev1.Service) bool { return hasAnother(other, &g) }) {
			confirm = append(confirm, g.slot)
		}
	}
	for _, other := range others {
		for family, have := range addressesOf(other) {
			for n := range have {
				unused = slices.DeleteFunc(unused, func(slot string) bool { return slot == spec.BalancerSlot(family, n) })
			}
		}
	}
	if len(confirm) > 0 { // a call without slots would be for all of them
		if _, err := p.cfg.Allocator.Confirm(ctx, &allocatorv1.ConfirmRequest{Owners: []*allocatorv1.OwnerSlots{{OwnerUid: owner.UID, Slots: confirm}}}); err != nil {
			return err
		}
	}
	release := []*allocatorv1.OwnerSlots{{OwnerUid: owner.UID, Slots: unused}}
	if uid := svc.GetMetadata().GetUid(); uid != owner.UID {
		release = append(release, &allocatorv1.OwnerSlots{OwnerUid: uid, Slots: allSlots()})
	}
	_, err := p.cfg.Allocator.Release(ctx, &allocatorv1.ReleaseRequest{Owners: slices.DeleteFunc(release, func(o *allocatorv1.OwnerSlots) bool { return len(o.GetSlots()) == 0 })})
	return err
}

// hasAnother reports whether a service has another address than the granted one in the same slot.
func hasAnother(svc *corev1.Service, g *wish) bool {
	have := addressesOf(svc)[g.family]
	return g.number < len(have) && have[g.number] != g.value
}
