package verifier

import (
	"context"
	"strconv"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// balancerValues returns the addresses of a service's load balancer, in the slots in which lbctl
// claims them. So a store that has lost its allocations gets them back in the slots that lbctl uses.
func balancerValues(svc *corev1.Service) []objectValue {
	var all []objectValue
	count := map[corev1.IPFamily]int{}
	for i, ingress := range svc.GetStatus().GetLoadBalancer().GetIngress() {
		ip := ingress.GetIp()
		if ip == "" {
			continue
		}
		family := spec.FamilyOf(ip)
		all = append(all, objectValue{
			allocatorv1.Use_USE_LOAD_BALANCER_IP, ip, "status.loadBalancer.ingress[" + strconv.Itoa(i) + "].ip", pool.AllProtocols, spec.BalancerSlot(family, count[family]),
		})
		count[family]++
	}
	return all
}

// inBalancerPool reports whether an address lies in a pool of load-balancer addresses.
func (v *Verifier) inBalancerPool(address pool.Value) bool {
	for _, p := range v.cfg.Engine.Pools() {
		if p.Use != allocatorv1.Use_USE_LOAD_BALANCER_IP {
			continue
		}
		if space, err := pool.Parse(p.Range); err == nil && contains(space, address.Addr()) {
			return true
		}
	}
	return false
}

// ownerOfValue returns the owner that a value of an object should have.
func ownerOfValue(o object.Object, use allocatorv1.Use) store.Owner {
	svc, ok := o.(*corev1.Service)
	if !ok || use != allocatorv1.Use_USE_LOAD_BALANCER_IP {
		return ownerOf(o)
	}
	owner := spec.OwnerOfAddresses(svc)
	return store.Owner{UID: owner.UID, Kind: owner.Kind, Namespace: owner.Namespace, Name: owner.Name}
}

// movesBetweenOwners reports whether a load-balancer address of a service belongs to another owner of
// its namespace, because the service's sharing key has changed. Then it is lbctl that moves the address, or
// gives the service another one. If the owner is another service that has the address in its status, no key has
// changed: two services have the same address.
func (v *Verifier) movesBetweenOwners(svc *corev1.Service, a allocatable) bool {
	if a.use != allocatorv1.Use_USE_LOAD_BALANCER_IP {
		return false
	}
	owner, ok := v.cfg.Engine.OwnerOf(a.value)
	if !ok || owner.Namespace != svc.GetMetadata().GetNamespace() {
		return false
	}
	other, isService := v.view.get(owner.UID).(*corev1.Service)
	return !isService || owner.UID == svc.GetMetadata().GetUid() || !isStored(other, a.use, a.value)
}

// sharedInRegistry reports whether a service has a shared address according to the registry.
func (v *Verifier) sharedInRegistry(ctx context.Context, h allocation.Allocation) (bool, error) {
	services, err := v.cfg.Registry.Services(ctx, h.Owner.Namespace)
	if err != nil {
		v.outage.Failed(err, "services", h.Owner.Namespace)
		return false, err
	}
	v.outage.Over()
	return newSharing(services).classify(h) != unowned, nil
}
