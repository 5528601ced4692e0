package loadbalancers

import (
	"net/netip"
	"slices"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/lbctl"
	"portolan.dev/services/object"
)

// TestPoolsAreChosen has a pool that must be named and one for another namespace.
func TestPoolsAreChosen(t *testing.T) {
	i := install(t, func(c *lbctl.Config) {
		c.ManualPools = []string{"manual"}
		c.PoolNamespaces = []lbctl.PoolNamespaces{{Pool: "theirs", Namespaces: []string{"elsewhere"}}, {Pool: "ours", Namespaces: []string{"default"}}}
	})
	i.createPool("manual", "198.51.100.0/28")
	i.createPool("theirs", "198.51.100.16/28")
	i.createPool("ours", "198.51.100.32/30")
	within := func(name, pool string) {
		t.Helper()
		if got := i.awaitAddresses(name, 1)[0]; !netip.MustParsePrefix(pool).Contains(netip.MustParseAddr(got)) {
			t.Errorf("%s has %s, which is not in %s", name, got, pool)
		}
	}
	i.create(balanced("first"))
	within("first", "198.51.100.32/30") // a pool for its namespace comes first
	i.create(balanced("second"))
	within("second", "198.51.100.32/30")
	i.create(balanced("third"))
	within("third", pools[0])
	i.create(balanced("named", annotate(object.AnnotationBalancerPool, "manual")))
	within("named", "198.51.100.0/28")
	requested := "198.51.100.9"
	if i.awaitAddresses("named", 1)[0] == requested {
		requested = "198.51.100.10"
	}
	i.create(balanced("requested", annotate(object.AnnotationBalancerIPs, requested)))
	within("requested", requested+"/32")
	for name, c := range map[string]struct{ key, value, reason, text string }{
		"forbidden": {object.AnnotationBalancerPool, "theirs", "Refused", "namespaces elsewhere only"},
		"stolen":    {object.AnnotationBalancerIPs, "198.51.100.20", "Refused", "namespaces elsewhere only"},
		"absent":    {object.AnnotationBalancerPoolOlder, "nope", "NoAddress", "portolan pool create nope"},
	} {
		i.create(balanced(name, annotate(c.key, c.value)))
		i.awaitReason(name, c.reason, c.text)
	}
	i.createPool("nope", "198.51.100.64/28")
	within("absent", "198.51.100.64/28")
}

// share returns a change that shares addresses under a key.
func share(key string) func(*corev1.Service) { return annotate(object.AnnotationBalancerShare, key) }

// TestSharedAddresses has services with one key. The address outlives the first of them, and goes with
// the last one.
func TestSharedAddresses(t *testing.T) {
	i := install(t)
	const got = "192.0.2.3"
	i.create(balanced("web", share("edge"), port(80), annotate(object.AnnotationBalancerIPs, got)))
	i.awaitExactly("web", got)
	i.create(balanced("tls", annotate(object.AnnotationBalancerShareOlder, "edge"), port(443)))
	i.awaitExactly("tls", got)
	i.awaitAllocations(got + " AddressShare CONFIRMED")

	i.create(balanced("same", share("edge"), port(443)))
	i.awaitReason("same", "Refused", "both have port 443/TCP")
	i.create(balanced("local", share("edge"), port(8080), func(svc *corev1.Service) {
		svc.Spec.ExternalTrafficPolicy = corev1.TrafficPolicy_TRAFFIC_POLICY_LOCAL
	}))
	i.awaitReason("local", "Refused", "externalTrafficPolicy Local")
	i.create(balanced("picky", share("edge"), port(8081), annotate(object.AnnotationBalancerIPs, "192.0.2.6")))
	i.awaitReason("picky", "Refused", "requests "+got)
	i.awaitEvent("same", "SyncLoadBalancerFailed", "change a port")

	// The waiting service gets the address that the others release.
	i.delete("tls")
	i.awaitExactly("same", got)
	for _, name := range []string{"picky", "local", "web"} { // with web nothing would hold back the request of picky
		i.delete(name)
		i.awaitGone(name)
	}
	i.awaitExactly("same", got)
	i.awaitAllocations(got + " AddressShare CONFIRMED")
	i.stopLBCtl()
	i.startLBCtl()
	i.delete("same")
	i.awaitGone("same")
	i.awaitAllocations()
}

// TestSharingKeepsTheAddressOfTheFirst has a service with an address begin to share it.
func TestSharingKeepsTheAddressOfTheFirst(t *testing.T) {
	i := install(t)
	i.create(balanced("web"))
	got := i.awaitAddresses("web", 1)[0]
	i.awaitAllocations(got + " Service CONFIRMED")
	i.update("web", share("edge"))
	i.awaitAllocations(got + " AddressShare CONFIRMED")
	i.create(balanced("dns", share("edge"), port(53)))
	i.awaitExactly("dns", got)
	i.awaitExactly("web", got)

	// A service with an address of its own that joins the share gets the address of the share.
	i.create(balanced("late", port(8080)))
	other := i.awaitAddresses("late", 1)[0]
	i.update("late", share("edge"))
	i.awaitExactly("late", got)
	i.awaitAllocations(got + " AddressShare CONFIRMED")
	if other == got {
		t.Errorf("both had %s", other)
	}
}

// TestManyAtOnce creates services for all addresses at once, some of which share.
func TestManyAtOnce(t *testing.T) {
	i := install(t)
	names := []string{"a", "b", "c", "d", "e"}
	for n, name := range names {
		i.create(balanced(name))
		i.create(balanced("shared-"+name, share("all"), port(int32(1000+n))))
	}
	shared := i.awaitAddresses("shared-a", 1)[0]
	seen := []string{shared}
	for _, name := range names {
		i.awaitExactly("shared-"+name, shared)
		seen = append(seen, i.awaitAddresses(name, 1)[0])
	}
	slices.Sort(seen)
	if len(slices.Compact(slices.Clone(seen))) != len(seen) {
		t.Errorf("the addresses are %v", seen)
	}
	for _, name := range names {
		i.delete(name)
		i.delete("shared-" + name)
	}
	i.awaitAllocations()
}

// TestServicesOfAShareMoveTogether changes the requests of two services that share an address, one after the other, and
// takes the key away from the last one.
func TestServicesOfAShareMoveTogether(t *testing.T) {
	i := install(t)
	i.create(balanced("web", share("edge"), port(80), annotate(object.AnnotationBalancerIPs, "192.0.2.2")))
	i.create(balanced("dns", share("edge"), port(53), annotate(object.AnnotationBalancerIPs, "192.0.2.2")))
	i.create(balanced("any", share("edge"), port(443)))
	for _, name := range []string{"web", "dns", "any"} {
		i.awaitExactly(name, "192.0.2.2")
	}
	i.update("web", annotate(object.AnnotationBalancerIPs, "192.0.2.5"))
	i.awaitReason("web", "Refused", "dns, which has the same sharing key")
	i.update("dns", annotate(object.AnnotationBalancerIPs, "192.0.2.5"))
	for _, name := range []string{"web", "dns", "any"} {
		i.awaitExactly(name, "192.0.2.5")
		i.awaitReason(name, "Ensured", "")
	}
	i.awaitAllocations("192.0.2.5 AddressShare CONFIRMED")

	// The others have no requests any more, and follow the third one.
	for _, name := range []string{"web", "dns"} {
		i.update(name, func(svc *corev1.Service) { delete(svc.Metadata.Annotations, object.AnnotationBalancerIPs) })
	}
	i.update("any", annotate(object.AnnotationBalancerIPs, "192.0.2.3"))
	for _, name := range []string{"web", "dns", "any"} {
		i.awaitExactly(name, "192.0.2.3")
	}
	i.awaitAllocations("192.0.2.3 AddressShare CONFIRMED")

	for _, name := range []string{"web", "dns"} {
		i.delete(name)
		i.awaitGone(name)
	}
	i.update("any", func(svc *corev1.Service) {
		delete(svc.Metadata.Annotations, object.AnnotationBalancerShare)
		delete(svc.Metadata.Annotations, object.AnnotationBalancerIPs)
	})
	i.awaitAllocations("192.0.2.3 Service CONFIRMED")
	i.awaitExactly("any", "192.0.2.3")
}
