package loadbalancers

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/lbctl"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// slowRetries lets a service that has failed wait for longer than the test lasts.
func slowRetries(c *lbctl.Config) { c.RetryMin, c.RetryMax = time.Hour, time.Hour }

// TestAWorkingLoadBalancerStaysEnsuredWithoutAnAllocator starts lbctl while the allocator is away. Nothing is wrong with
// the services that have an address. A service without one waits, and gets an address when the allocator is back,
// although the pauses of lbctl are long.
func TestAWorkingLoadBalancerStaysEnsuredWithoutAnAllocator(t *testing.T) {
	folder := t.TempDir()
	i := install(t, slowRetries)
	i.stopAllocator()
	i.startAllocator(folder)
	names := []string{"a", "b", "c", "d"}
	i.create(balanced("waits", func(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP }))
	before := map[string]*corev1.Service{}
	for _, name := range names {
		i.create(balanced(name))
	}
	for _, name := range names {
		i.awaitReason(name, "Ensured", "")
		before[name] = i.get(name)
	}
	i.stopLBCtl()
	i.stopAllocator()
	i.startLBCtl(slowRetries)
	i.update("waits", func(svc *corev1.Service) { // needs no node port, which it could not get
		no := false
		svc.Spec.Type, svc.Spec.AllocateLoadBalancerNodePorts = corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, &no
	})
	i.awaitReason("waits", "ProviderUnavailable", "")
	i.awaitEvent("waits", "LoadBalancerPending", "")
	i.startAllocator(folder)
	i.awaitAddresses("waits", 1)
	i.awaitReason("waits", "Ensured", "")
	for _, name := range names {
		i.wantUndisturbed(name, before[name])
	}
}

// TestAChangeWaitsForTheAllocator changes and deletes services while the allocator is away. lbctl knows that these
// changes are missing, and says so. No Event warns about the services, because nothing is wrong with them.
func TestAChangeWaitsForTheAllocator(t *testing.T) {
	folder := t.TempDir()
	i := install(t, slowRetries)
	i.stopAllocator()
	i.startAllocator(folder)
	for _, name := range []string{"changed", "deleted"} {
		i.create(balanced(name))
		i.awaitReason(name, "Ensured", "")
	}
	free := slices.DeleteFunc([]string{"192.0.2.4", "192.0.2.5", "192.0.2.6"}, func(ip string) bool {
		return slices.Contains(slices.Concat(i.awaitAddresses("changed", 1), i.awaitAddresses("deleted", 1)), ip)
	})[0]
	i.awaitSettled()
	i.stopAllocator()
	i.update("changed", annotate(object.AnnotationBalancerIPs, free))
	i.delete("deleted")
	i.awaitReason("changed", "ProviderUnavailable", "")
	i.awaitEvent("deleted", "LoadBalancerPending", "the load balancer is not deleted yet")
	i.startAllocator(folder)
	i.awaitExactly("changed", free)
	i.awaitReason("changed", "Ensured", "")
	i.awaitGone("deleted")
	for _, name := range []string{"changed", "deleted"} {
		i.wantNoWarning(name)
	}
}

// awaitSettled waits until all load-balancer addresses are confirmed, which are the last calls of lbctl for services
// that do not change.
func (i *installation) awaitSettled() {
	i.Helper()
	kittest.Eventually(i.T, "confirmed addresses", func() error {
		all := i.allocations()
		for _, a := range all {
			if !strings.HasSuffix(a, " CONFIRMED") {
				return fmt.Errorf("they are %q", all)
			}
		}
		return nil
	})
}

// wantUndisturbed checks that a service has the addresses and the condition that it had, since the same time, and that
// no Event warns about it.
func (i *installation) wantUndisturbed(name string, before *corev1.Service) {
	i.Helper()
	now := i.get(name)
	condition := func(svc *corev1.Service) *corev1.Condition {
		return object.Condition(svc.GetStatus().GetConditions(), object.ConditionLoadBalancer)
	}
	if !proto.Equal(condition(now), condition(before)) || !slices.Equal(addresses(now), addresses(before)) {
		i.Errorf("%s was\n%v\nand is now\n%v", name, before.GetStatus(), now.GetStatus())
	}
	i.wantNoWarning(name)
}

// wantNoWarning checks that no Event warns about a service.
func (i *installation) wantNoWarning(name string) {
	i.Helper()
	resp, err := i.events.ListEvents(i.Context(), &registryv1.ListEventsRequest{Namespace: "default", FieldSelector: "regarding.name=" + name})
	if err != nil {
		i.Fatal(err)
	}
	for _, e := range resp.GetEvents() {
		if e.GetType() == corev1.EventType_EVENT_TYPE_WARNING {
			i.Errorf("%s has the Event %s: %s", name, e.GetReason(), e.GetMessage())
		}
	}
}
