package loadbalancers

import (
	"net/netip"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/lbctl"
	"portolan.dev/services/balancer"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

const (
	edge = balancer.ClassEdge
	// awsType is an annotation that no edge honours.
	awsType = "service.beta.kubernetes.io/aws-load-balancer-type"
)

// TestAnAddressForEdges is the whole way of a service of the edge's class: an address of a pool with
// ipMode Proxy, the same one after a restart, and nothing left after the deletion.
func TestAnAddressForEdges(t *testing.T) {
	i := installWithoutLBCtl(t)
	i.create(balanced("dns", class(edge), withPort("dns", 53, udp))) // later the registry would refuse it
	i.startLBCtl()
	i.create(balanced("web", class(edge)))
	got := i.awaitAddresses("web", 1)[0]
	svc := i.get("web")
	if addrs := spec.EdgeAddresses(svc); len(addrs) != 1 || addrs[0].String() != got {
		t.Errorf("the addresses of edges are %v, and the service has %v", addrs, svc.GetStatus())
	}
	i.awaitReason("web", "Ensured", edge)
	i.awaitAllocations(got + " Service CONFIRMED")
	i.stopLBCtl()
	i.startLBCtl()
	i.update("web", port(8080))
	i.awaitExactly("web", got)

	i.awaitReason("dns", "Refused", "the provider portolan.dev/edge forwards no UDP (port 53/UDP)")
	for _, name := range []string{"web", "dns"} {
		i.delete(name)
		i.awaitGone(name)
	}
	i.awaitAllocations()
}

// TestAnnotationInternal has services that ask for an internal load balancer, by annotations of clouds and
// by Portolan's own. They get no address while there is no internal pool, and then one of that pool.
func TestAnnotationInternal(t *testing.T) {
	i := install(t)
	asking := map[string][2]string{
		"own": {object.AnnotationBalancerInternal, "true"}, "aws": {awsInternal, "0.0.0.0/0"},
		"gke": {"networking.gke.io/load-balancer-type", "Internal"},
	}
	for name, a := range asking {
		i.create(balanced(name, class(edge), annotate(a[0], a[1])))
		i.awaitReason(name, "Refused", "internal")
	}
	i.create(balanced("public", class(edge), annotate(awsInternal, "false")))
	public := i.awaitAddresses("public", 1)[0]

	i.createPool("inside", "10.20.0.0/29")
	i.stopLBCtl()
	i.startLBCtl(func(c *lbctl.Config) { c.InternalPools = []string{"inside"} })
	inside := netip.MustParsePrefix("10.20.0.0/29")
	for name := range asking {
		i.awaitAddresses(name, 1)
		if addrs := spec.EdgeAddresses(i.get(name)); len(addrs) != 1 || !inside.Contains(addrs[0]) {
			t.Errorf("edges serve %s at %v, want an address of %s", name, addrs, inside)
		}
	}
	i.create(balanced("another", class(edge)))
	if got := i.awaitAddresses("another", 1)[0]; inside.Contains(netip.MustParseAddr(got)) {
		t.Errorf("a service that does not ask for it has the internal address %s", got)
	}
	i.awaitExactly("public", public)
}

// TestEdgesShareNoAddressWithNodes has services of both classes with one key.
func TestEdgesShareNoAddressWithNodes(t *testing.T) {
	i := install(t)
	i.create(balanced("web", class(edge), share("k")))
	got := i.awaitAddresses("web", 1)[0]
	i.create(balanced("tls", class(edge), share("k"), port(443)))
	i.awaitExactly("tls", got)
	i.create(balanced("dns", share("k"), port(53)))
	i.awaitReason("dns", "Refused", "its class is portolan.dev/edge and this one's is portolan.dev/pool")
	if svc := i.get("dns"); len(addresses(svc)) > 0 {
		t.Errorf("it has %v", addresses(svc))
	}
	i.delete("web")
	i.delete("tls")
	i.awaitAddresses("dns", 1) // as soon as the share is free
}

// TestSettingsThatAreNotHonoured has a service with annotations for clouds only. It says so in the
// condition, and by one Event for each change, also after a change of the leader.
func TestSettingsThatAreNotHonoured(t *testing.T) {
	i := install(t)
	i.create(balanced("web", class(edge), annotate(awsType, "nlb")))
	i.awaitReason("web", "Ensured", "by the provider portolan.dev/edge; not honoured: "+awsType+": the edge ends connections")
	i.awaitEvent("web", "LoadBalancerSettings", "not honoured: "+awsType)
	i.stopLBCtl()
	i.startLBCtl()
	i.update("web", port(8080))
	i.update("web", annotate(balancer.Prefix+"colour", "blue"))
	i.awaitEvent("web", "LoadBalancerSettings", balancer.Prefix+"colour: is unknown")
	i.update("web", func(svc *corev1.Service) { svc.Metadata.Annotations = nil })
	i.awaitReason("web", "Ensured", "by the provider portolan.dev/edge")
	resp, err := i.events.ListEvents(t.Context(), &registryv1.ListEventsRequest{Namespace: "default", FieldSelector: "regarding.name=web,reason=LoadBalancerSettings"})
	if err != nil || len(resp.GetEvents()) != 2 {
		t.Errorf("there are the events %v, %v; want one for each change", resp.GetEvents(), err)
	}

	// Nodes act on none of this, and the manifest is accepted all the same.
	i.create(balanced("pooled", annotate(balancer.Prefix+"tls-cert", "../nonsense"), annotate(awsType, "nlb")))
	i.awaitReason("pooled", "Ensured", "tls-cert: has no effect: the class of the load balancer is portolan.dev/pool: use the class portolan.dev/edge")
	i.awaitEvent("pooled", "LoadBalancerSettings", awsType+": has no effect")
}

// TestAnnotationsOfEdgesAreChecked has values that are not valid, for the class of the edge.
func TestAnnotationsOfEdgesAreChecked(t *testing.T) {
	i := install(t)
	i.create(balanced("web", class(edge), annotate(balancer.Prefix+"proxy-protocol", "v2")))
	for name, value := range map[string]string{"proxy-protocol": "v3", "tls-cert": "../web", "check-interval": "1h"} {
		svc := balanced("bad", class(edge), annotate(balancer.Prefix+name, value))
		_, err := i.services.CreateService(t.Context(), &registryv1.CreateServiceRequest{Service: svc})
		field := "metadata.annotations[" + balancer.Prefix + name + "]"
		if text := apierr.Describe(err); apierr.Code(err) != codes.InvalidArgument || !strings.Contains(text, field) || !strings.Contains(text, `"`+value+`"`) {
			t.Errorf("%s: %v, want a violation of %s", name, text, field)
		}
	}
}
