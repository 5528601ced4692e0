package verifier

import (
	"testing"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"

	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

const balancerIP = allocatorv1.Use_USE_LOAD_BALANCER_IP

// balanced returns a service with lbctl's finalizer, and with the addresses in its status.
func balanced(name, uid, share string, addresses ...string) *corev1.Service {
	svc := service(name, uid, "None")
	svc.Spec.Type = corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER
	svc.Metadata.Finalizers = []string{object.FinalizerLoadBalancer}
	if share != "" {
		svc.Metadata.Annotations = map[string]string{object.AnnotationBalancerShare: share}
	}
	svc.Status = &corev1.ServiceStatus{LoadBalancer: &corev1.LoadBalancerStatus{}}
	for _, a := range addresses {
		svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, &corev1.LoadBalancerIngress{Ip: a})
	}
	return svc
}

// TestAHeldAddressStaysUntilItsServiceHasItOrIsGone allocates an address as lbctl does before it
// writes it. The finalizer keeps it, unconfirmed; the status confirms it; without both it is freed.
func TestAHeldAddressStaysUntilItsServiceHasItOrIsGone(t *testing.T) {
	w := newTestVerifier(t)
	w.feed.Put(balanced("web", "u1", ""))
	w.allocate(ownerOf(balanced("web", "u1", "")), spec.BalancerSlot(corev1.IPFamily_IP_FAMILY_IPV4, 0), balancerIP, "10.98.0.1")
	w.passGrace()
	w.want("10.98.0.1 u1?")
	w.feed.Put(balanced("web", "u1", "", "10.98.0.1"))
	w.passGrace()
	w.want("10.98.0.1 u1")
	changed := balanced("web", "u1", "")
	changed.Metadata.Finalizers = nil
	w.feed.Put(changed)
	w.passGrace()
	w.want()
	w.wantEvents()
}

// TestAnAddressOfEdgesIsTheServices has an address at which edges listen, and one of another load
// balancer. The first is of a pool, and stays allocated to its service; the second is of no pool.
func TestAnAddressOfEdgesIsTheServices(t *testing.T) {
	edge, other := balanced("edge", "u1", "", "10.98.0.1"), balanced("other", "u2", "", "203.0.113.1")
	for _, svc := range []*corev1.Service{edge, other} {
		svc.Status.LoadBalancer.Ingress[0].IpMode = corev1.IPMode_IP_MODE_PROXY
	}
	w := newTestVerifier(t, edge, other)
	w.want("10.98.0.1 u1") // taken up at the start, as with a new store
	w.passGrace()
	w.want("10.98.0.1 u1")
	w.feed.Delete(object.KeyOf(edge))
	w.passGrace()
	w.want()
	w.wantEvents()
}

// TestASharedAddressOutlivesItsServices has two services with one key. The address belongs to the
// share until both are gone, also if the view lacks a service that the registry has.
func TestASharedAddressOutlivesItsServices(t *testing.T) {
	web, dns := balanced("web", "u1", "edge", "10.98.0.1"), balanced("dns", "u2", "edge", "10.98.0.1")
	share := spec.OwnerOfAddresses(web).UID
	w := newTestVerifier(t, web, dns)
	w.want("10.98.0.1 " + share) // taken up at the start, as with a new store
	w.feed.Delete(object.KeyOf(web))
	w.passGrace()
	w.want("10.98.0.1 " + share)
	w.registry.differs[object.KeyOf(dns)] = dns
	w.feed.Delete(object.KeyOf(dns))
	w.passGrace()
	w.want("10.98.0.1 " + share)
	delete(w.registry.differs, object.KeyOf(dns))
	w.passGrace()
	w.want()
	w.wantEvents()
}

// TestAnAddressOfAnotherProviderIsNotAllocated has a service with an address outside all pools, and two
// services with the same address that do not share it.
func TestAnAddressOfAnotherProviderIsNotAllocated(t *testing.T) {
	w := newTestVerifier(t)
	other := balanced("other", "u3", "", "10.98.0.1")
	other.Metadata.Namespace = "elsewhere"
	w.feed.Put(balanced("cloud", "u1", "", "203.0.113.9"), balanced("web", "u2", "", "10.98.0.1"))
	w.passGrace()
	w.want("10.98.0.1 u2")
	w.wantEvents("web LoadBalancerIPNotAllocated status.loadBalancer.ingress[0].ip: 10.98.0.1 was not allocated")
	w.feed.Put(other)
	w.passGrace()
	w.want("10.98.0.1 u2")
	w.wantEvents("other LoadBalancerIPAlreadyAllocated", "web LoadBalancerIPAlreadyAllocated")
}

// TestTwoServicesWithOneAddressAreReported has two services of one namespace with the same address. Each has its
// own, so that no sharing key explains it.
func TestTwoServicesWithOneAddressAreReported(t *testing.T) {
	w := newTestVerifier(t, balanced("web", "u1", "", "10.98.0.1"))
	w.want("10.98.0.1 u1")
	w.feed.Put(balanced("dns", "u2", "", "10.98.0.1"))
	w.passGrace()
	w.want("10.98.0.1 u1")
	w.wantEvents("dns LoadBalancerIPAlreadyAllocated", "web LoadBalancerIPAlreadyAllocated")
}

// TestAnAddressStaysWithTheServiceThatStopsToShareIt removes the sharing key while lbctl is away for longer than the
// grace. The address is still in the status, so nothing may free it.
func TestAnAddressStaysWithTheServiceThatStopsToShareIt(t *testing.T) {
	web := balanced("web", "u1", "edge", "10.98.0.1")
	share := spec.OwnerOfAddresses(web).UID
	w := newTestVerifier(t, web)
	for _, key := range []string{"", "another"} {
		w.feed.Put(balanced("web", "u1", key, "10.98.0.1"))
		w.passGrace()
		w.want("10.98.0.1 " + share)
	}
	w.feed.Delete(object.KeyOf(web))
	w.passGrace()
	w.want()
	w.wantEvents()
}

// TestAShareThatMovesKeepsBothAddresses has two services of one share, of which the first has moved to another
// address. Neither address may become free, also if the store is lost meanwhile.
func TestAShareThatMovesKeepsBothAddresses(t *testing.T) {
	slot := spec.BalancerSlot(corev1.IPFamily_IP_FAMILY_IPV4, 0)
	web, dns := balanced("web", "u1", "edge", "10.98.0.1"), balanced("dns", "u2", "edge", "10.98.0.1")
	share := ownerOfValue(web, balancerIP)
	both := []string{"10.98.0.1 " + share.UID, "10.98.0.2 " + share.UID}

	w := newTestVerifier(t, web, dns)
	w.allocate(share, slot, balancerIP, "10.98.0.2")
	w.feed.Put(balanced("web", "u1", "edge", "10.98.0.2"))
	w.passGrace()
	w.want("10.98.0.1 "+share.UID, "10.98.0.2 "+share.UID+"?")
	w.feed.Put(balanced("dns", "u2", "edge", "10.98.0.2"))
	w.passGrace()
	w.want("10.98.0.2 " + share.UID)

	lost := newTestVerifier(t, balanced("web", "u1", "edge", "10.98.0.2"), dns)
	lost.want(both...)
	lost.passGrace()
	lost.want(both...)
	lost.wantEvents()

	late := newTestVerifier(t, balanced("web", "u1", "edge", "10.98.0.2"))
	late.feed.Put(dns)
	late.passGrace()
	late.want(both...)
	late.passGrace()
	late.want(both...)
	late.wantEvents("dns LoadBalancerIPNotAllocated")
}

// TestAPoolThatIsMadeAgainGivesNoAddressTwice loses the store together with a pool that was made by the API. The services
// get their addresses in the new pool before anything else can.
func TestAPoolThatIsMadeAgainGivesNoAddressTwice(t *testing.T) {
	w := newTestVerifier(t, balanced("web", "u1", "", "198.51.100.1"), balanced("dns", "u2", "edge", "198.51.100.2"))
	w.want()
	space, err := pool.Parse("198.51.100.0/29")
	if err != nil || !w.verifier.HasUnknown(space) {
		t.Fatalf("the addresses of the services are not noticed, %v", err)
	}
	if _, err := w.engine.CreatePool(t.Context(), store.Pool{Name: "again", Use: balancerIP, Range: space.String(), State: allocatorv1.PoolState_POOL_STATE_DRAINING}); err != nil {
		t.Fatal(err)
	}
	if err := w.verifier.AdoptWithin(t.Context(), space); err != nil {
		t.Fatal(err)
	}
	w.want("198.51.100.1 u1", "198.51.100.2 "+spec.OwnerOfAddresses(balanced("dns", "u2", "edge")).UID)
	if w.verifier.HasUnknown(space) {
		t.Error("the addresses are not known afterwards")
	}
}
