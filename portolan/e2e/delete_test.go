package e2e

import (
	"fmt"
	"strings"
	"testing"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/kittest"
)

// TestDeletedPodServesUntilOthersDo checks that a pod that another client deletes leaves its
// service, serves while it is the only one, and has its program asked to stop. When the program has
// ended, the pod is gone.
func TestDeletedPodServesUntilOthersDo(t *testing.T) {
	i := install(t)
	i.apply(firstService)
	vip := hostPort(i.vip("my-service"), 80)
	one := i.hello("one", "app.kubernetes.io/name=MyApp", "http", 9376, "--drain-delay", "20s")
	i.awaitBackends("my-service", 1)

	if out := i.portolan("delete", "pod", "one"); !strings.HasPrefix(out, "pod/one is terminating; it is removed in 51s") {
		t.Errorf("delete: %q", out)
	}
	i.awaitCondition("my-service", func(ready, serving, terminating bool) bool { return !ready && serving && terminating })
	one.await("pod default/one was deleted")
	if counts := spread(t, vip, 20); counts["one"] != 20 {
		t.Errorf("the only pod is terminating, and 20 requests went to %v", counts)
	}
	i.hello("two", "app.kubernetes.io/name=MyApp", "http", 9376)
	kittest.Eventually(t, "the ready pod alone is used", func() error {
		if counts := spread(t, vip, 20); counts["two"] != 20 {
			return fmt.Errorf("requests went to %v", counts)
		}
		return nil
	})
	if out := i.portolan("delete", "pod", "one", "--grace-period", "0"); out != "pod/one deleted\n" {
		t.Errorf("delete without grace: %q", out)
	}
	i.awaitBackends("my-service", 1)
}

// TestDeleteCollection checks that a selector selects the objects to delete, that a dry run lists
// them, and that the others stay.
func TestDeleteCollection(t *testing.T) {
	i := install(t)
	for _, labels := range []string{"a: {tier: front}", "b: {tier: front}", "c: {tier: back}"} {
		name, set, _ := strings.Cut(labels, ": ")
		i.apply(fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: %s, labels: %s}\nspec: {ports: [{port: 80}]}\n", name, set))
	}
	if out := i.portolan("delete", "services", "-l", "tier=front", "--dry-run"); strings.Count(out, "would be deleted (dry run)\n") != 2 {
		t.Errorf("dry run: %q", out)
	}
	if out := i.portolan("delete", "services", "-l", "tier=front"); strings.Count(out, " deleted\n") != 2 {
		t.Errorf("delete: %q", out)
	}
	if left := i.portolan("get", "services", "-o", "name"); left != "service/c\n" {
		t.Errorf("left are %q", left)
	}
	i.portolan("delete", "services", "--all", "-A")
	if out, errOut, err := i.try("", "delete", "services", "--all"); err != nil || out != "" || errOut != "No services found.\n" {
		t.Errorf("delete of nothing: %q, %q, %v", out, errOut, err)
	}
}

// awaitCondition waits until the only endpoint of a service has the given conditions.
func (i *installation) awaitCondition(service string, is func(ready, serving, terminating bool) bool) {
	i.Helper()
	slices := registryv1.NewEndpointSliceServiceClient(i.dial(7400))
	kittest.Eventually(i.T, "the endpoint of "+service, func() error {
		list, err := slices.ListEndpointSlices(i.Context(), &registryv1.ListEndpointSlicesRequest{LabelSelector: "kubernetes.io/service-name=" + service})
		if err != nil {
			return err
		}
		for _, slice := range list.GetEndpointSlices() {
			for _, endpoint := range slice.GetEndpoints() {
				if c := endpoint.GetConditions(); is(c.GetReady(), c.GetServing(), c.GetTerminating()) {
					return nil
				}
			}
		}
		return fmt.Errorf("slices %v", list.GetEndpointSlices())
	})
}
