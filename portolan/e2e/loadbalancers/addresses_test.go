package loadbalancers

import (
	"slices"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/lbctl"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// TestAServiceGetsAnAddressAndGivesItBack is the whole way of one service: an address with finalizer,
// condition and events, the same address after a restart, and nothing left after the deletion.
func TestAServiceGetsAnAddressAndGivesItBack(t *testing.T) {
	i := install(t)
	i.create(balanced("web"))
	got := i.awaitAddresses("web", 1)[0]
	svc := i.get("web")
	if !spec.HasBalancerFinalizer(svc) || svc.GetStatus().GetLoadBalancer().GetIngress()[0].GetIpMode() != corev1.IPMode_IP_MODE_VIP {
		t.Errorf("the service is %v", svc)
	}
	if why := spec.PendingLoadBalancer(svc); why != "" {
		t.Errorf("pending: %s", why)
	}
	i.awaitReason("web", "Ensured", "portolan.dev/pool")
	i.awaitEvent("web", "EnsuringLoadBalancer", "")
	i.awaitEvent("web", "EnsuredLoadBalancer", got)
	i.awaitAllocations(got + " Service CONFIRMED")

	i.stopLBCtl()
	i.startLBCtl()
	i.update("web", port(8080))
	i.awaitExactly("web", got)
	i.awaitAllocations(got + " Service CONFIRMED")

	i.delete("web")
	i.awaitGone("web")
	i.awaitAllocations()
	i.awaitEvent("web", "DeletedLoadBalancer", "")
}

// TestADeletionWaitsForLBCtl deletes a service while no lbctl runs.
func TestADeletionWaitsForLBCtl(t *testing.T) {
	i := install(t)
	i.create(balanced("web"))
	got := i.awaitAddresses("web", 1)[0]
	i.awaitAllocations(got + " Service CONFIRMED")
	i.stopLBCtl()
	i.delete("web")
	if svc := i.get("web"); svc.GetMetadata().GetDeletionTimestamp() == nil || len(i.allocations()) != 1 {
		t.Fatalf("without lbctl the service is %v, and allocated is %v", svc, i.allocations())
	}
	i.startLBCtl()
	i.awaitGone("web")
	i.awaitAllocations()
}

// TestAnotherTypeGivesTheAddressBack changes the type of a service back and forth.
func TestAnotherTypeGivesTheAddressBack(t *testing.T) {
	i := install(t)
	i.create(balanced("web"))
	i.awaitAddresses("web", 1)
	i.update("web", func(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP })
	i.awaitAllocations()
	i.awaitNoTrace("web")
	i.update("web", func(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER })
	i.awaitAddresses("web", 1)
}

// TestBothFamilies has services of each policy of families.
func TestBothFamilies(t *testing.T) {
	i := install(t)
	policy := func(p corev1.IPFamilyPolicy) func(*corev1.Service) {
		return func(svc *corev1.Service) { svc.Spec.IpFamilyPolicy = p }
	}
	i.create(balanced("both", policy(corev1.IPFamilyPolicy_IP_FAMILY_POLICY_REQUIRE_DUAL_STACK)))
	got := i.awaitAddresses("both", 2)
	if spec.FamilyOf(got[0]) != corev1.IPFamily_IP_FAMILY_IPV4 || spec.FamilyOf(got[1]) != corev1.IPFamily_IP_FAMILY_IPV6 {
		t.Errorf("the addresses are %v", got)
	}
	// One family less releases its address.
	i.update("both", func(svc *corev1.Service) {
		svc.Spec.IpFamilyPolicy = corev1.IPFamilyPolicy_IP_FAMILY_POLICY_SINGLE_STACK
		svc.Spec.IpFamilies, svc.Spec.ClusterIps = svc.Spec.IpFamilies[:1], svc.Spec.ClusterIps[:1]
	})
	i.awaitExactly("both", got[0])
	i.awaitAllocations(got[0] + " Service CONFIRMED")

	i.retire("load-balancer-ipv6")
	i.create(balanced("prefers", policy(corev1.IPFamilyPolicy_IP_FAMILY_POLICY_PREFER_DUAL_STACK)))
	if got := i.awaitAddresses("prefers", 1); spec.FamilyOf(got[0]) != corev1.IPFamily_IP_FAMILY_IPV4 {
		t.Errorf("without a pool for IPv6, a service that prefers both has %v", got)
	}
	i.create(balanced("requires", policy(corev1.IPFamilyPolicy_IP_FAMILY_POLICY_REQUIRE_DUAL_STACK)))
	i.awaitReason("requires", "NoAddress", "IPv6")
	if got := addresses(i.get("requires")); got != nil {
		t.Errorf("a service that requires both has %v", got)
	}
}

// TestRequestedAddresses requests addresses by the field and both annotations, and changes and drops
// requests.
func TestRequestedAddresses(t *testing.T) {
	i := install(t)
	i.create(balanced("field", func(svc *corev1.Service) { svc.Spec.LoadBalancerIp = "192.0.2.2" }))
	i.create(balanced("own", annotate(object.AnnotationBalancerIPs, "192.0.2.3")))
	i.create(balanced("metal", annotate(object.AnnotationBalancerIPsOlder, "192.0.2.4, 192.0.2.5")))
	i.awaitExactly("field", "192.0.2.2")
	i.awaitExactly("own", "192.0.2.3")
	i.awaitExactly("metal", "192.0.2.4", "192.0.2.5")

	i.update("own", annotate(object.AnnotationBalancerIPs, "192.0.2.6"))
	i.awaitExactly("own", "192.0.2.6")
	i.update("metal", func(svc *corev1.Service) { delete(svc.Metadata.Annotations, object.AnnotationBalancerIPsOlder) })
	i.awaitExactly("metal", "192.0.2.4")
	i.awaitAllocations("192.0.2.2 Service CONFIRMED", "192.0.2.4 Service CONFIRMED", "192.0.2.6 Service CONFIRMED")

	for name, c := range map[string]struct{ ips, reason, text string }{
		"elsewhere": {"203.0.113.7", "NoAddress", "192.0.2.0/29"},
		"taken":     {"192.0.2.2", "Refused", "belongs to another service"},
		"nonsense":  {"web.example", "Refused", "no address"},
		"family":    {"2001:db8::3", "Refused", "spec.ipFamilies"},
	} {
		i.create(balanced(name, annotate(object.AnnotationBalancerIPs, c.ips)))
		i.awaitReason(name, c.reason, c.text)
		if got := addresses(i.get(name)); got != nil {
			t.Errorf("%s has %v", name, got)
		}
	}
	i.awaitEvent("taken", "SyncLoadBalancerFailed", "share it")
	i.awaitAllocations("192.0.2.2 Service CONFIRMED", "192.0.2.4 Service CONFIRMED", "192.0.2.6 Service CONFIRMED")
	// The request is served as soon as the address is free.
	i.delete("field")
	i.awaitExactly("taken", "192.0.2.2")
}

// TestAWaitingServiceGetsAnAddressWhenThereIsOne fills the only pool, and frees an address, creates a
// pool and enlarges one.
func TestAWaitingServiceGetsAnAddressWhenThereIsOne(t *testing.T) {
	i := install(t)
	const room = 6 // of a /29
	for n := range room {
		i.create(balanced(string(rune('a' + n))))
	}
	for n := range room {
		i.awaitAddresses(string(rune('a'+n)), 1)
	}
	i.create(balanced("waits"))
	i.awaitReason("waits", "NoAddress", "enlarge a pool")
	i.awaitEvent("waits", "LoadBalancerPending", "enlarge a pool")
	freed := addresses(i.get("a"))[0]
	i.delete("a")
	i.awaitExactly("waits", freed)

	i.create(balanced("grows"))
	i.awaitReason("grows", "NoAddress", "")
	i.createPool("more", "198.51.100.0/30")
	got := i.awaitAddresses("grows", 1)
	if !slices.Contains([]string{"198.51.100.1", "198.51.100.2"}, got[0]) {
		t.Errorf("the new pool gave %v", got)
	}
}

// TestAnotherReplicaTakesOver has two replicas, of which the leader stops.
func TestAnotherReplicaTakesOver(t *testing.T) {
	i := install(t)
	i.create(balanced("first"))
	got := i.awaitAddresses("first", 1)[0]
	stopFirst := i.stopLBCtl
	i.startLBCtl(func(c *lbctl.Config) { c.Identity = "second" })
	stopFirst()
	i.create(balanced("next"))
	i.awaitAddresses("next", 1)
	i.awaitExactly("first", got)
	i.delete("first")
	i.awaitGone("first")
}
