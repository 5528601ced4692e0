package controller

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"

	"portolan.dev/endpointctl/internal/registrytest"
)

// clusterIP is the address that the registry refuses in these tests.
const clusterIP = "10.96.0.5"

// checkBackends refuses clusterIP as an endpoint, with the field in the error, as the registry
// does.
func checkBackends(_ string, o object.Object) error {
	var found apierr.Violations
	check := func(field, address string) {
		if address == clusterIP {
			found.Add(field, apierr.ReasonInvalid, "may not be the cluster IP of a service (default/db)")
		}
	}
	switch o := o.(type) {
	case *corev1.EndpointSlice:
		for i, ep := range o.GetEndpoints() {
			check(fmt.Sprintf("endpoints[%d].addresses[0]", i), ep.GetAddresses()[0])
		}
	case *corev1.Endpoints:
		for i, subset := range o.GetSubsets() {
			for j, a := range subset.GetAddresses() {
				check(fmt.Sprintf("subsets[%d].addresses[%d].ip", i, j), a.GetIp())
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	return apierr.Invalid(object.KindOf(o), object.KeyOf(o).Path(), found)
}

func TestOnePodThatIsRefusedDoesNotBlockItsService(t *testing.T) {
	r := registrytest.New(t)
	db := service()
	db.Metadata.Name, db.Spec.Selector = "db", nil
	r.Put(service(), db, pod("p1", "10.0.0.1"), pod("p2", clusterIP))
	r.Fail(checkBackends)
	c, _ := run(t, r, nil)
	waitFor(t, r, "10.0.0.1 / 10.0.0.1")
	r.Put(pod("p3", "10.0.0.3"))
	waitFor(t, r, "10.0.0.1 10.0.0.3 / 10.0.0.1 10.0.0.3")
	r.Delete(pod("p1", ""))
	waitFor(t, r, "10.0.0.3 / 10.0.0.3")
	want := []string{"Warning EndpointsLeftOut: left out because the registry refuses them: " +
		"10.96.0.5 of pod p2: may not be the cluster IP of a service (default/db)"}
	kittest.Eventually(t, "an event", func() error {
		if got := eventsIn(r); !slices.Equal(got, want) {
			return fmt.Errorf("events %q, want %q", got, want)
		}
		return nil
	})
	if failure, failed := c.Failure(web); failed {
		t.Errorf("the service counts as failing: %v", failure)
	}
	r.Fail(nil)
	r.Delete(db) // the address is free now
	waitFor(t, r, "10.0.0.3 10.96.0.5 / 10.0.0.3 10.96.0.5")
}

func TestTheRegistryIsAskedAgainAboutRefusedEndpoints(t *testing.T) {
	r := registrytest.New(t)
	r.Put(service(), pod("p1", "10.0.0.1"), pod("p2", clusterIP))
	r.Fail(checkBackends)
	run(t, r, func(cfg *Config) { cfg.Recheck = 20 * time.Millisecond })
	waitFor(t, r, "10.0.0.1 / 10.0.0.1")
	r.Fail(nil) // no other object changes
	waitFor(t, r, "10.0.0.1 10.96.0.5 / 10.0.0.1 10.96.0.5")
}

func TestARefusedAddressOfAnEndpointsIsNotMirrored(t *testing.T) {
	r := registrytest.New(t)
	svc := service()
	svc.Spec.Selector = nil
	r.Put(svc, &corev1.Endpoints{Metadata: &corev1.ObjectMeta{Name: "web", Namespace: "default"}, Subsets: []*corev1.EndpointSubset{{
		Addresses: []*corev1.EndpointAddress{{Ip: "10.0.0.1"}, {Ip: clusterIP}}, Ports: []*corev1.EndpointSubsetPort{{Port: 80}},
	}}})
	r.Fail(checkBackends)
	c, _ := run(t, r, nil)
	waitFor(t, r, "10.0.0.1 / 10.0.0.1 10.96.0.5")
	want := []string{clusterIP + ": may not be the cluster IP of a service (default/db)"}
	if got := c.Refused(web).Texts(); !slices.Equal(got, want) {
		t.Errorf("refused are %q, want %q", got, want)
	}
}

// TestOnlyFieldsOfEndpointsNameOne checks that other violations of an object do not make the
// controller leave out an endpoint.
func TestOnlyFieldsOfEndpointsNameOne(t *testing.T) {
	slice := &corev1.EndpointSlice{Endpoints: []*corev1.Endpoint{{Addresses: []string{"10.0.0.1"}}, {Addresses: []string{"10.0.0.2"}}}}
	legacy := &corev1.Endpoints{Subsets: []*corev1.EndpointSubset{{Addresses: []*corev1.EndpointAddress{{Ip: "10.0.0.3"}}}, {
		Addresses:         []*corev1.EndpointAddress{{Ip: "10.0.0.4"}, {Ip: "10.0.0.5"}},
		NotReadyAddresses: []*corev1.EndpointAddress{{Ip: "10.0.0.6"}},
	}}}
	for _, c := range []struct {
		o           object.Object
		field, want string
	}{
		{slice, "endpoints[0].addresses[0]", "10.0.0.1"},
		{slice, "endpoints[1].nodeName", "10.0.0.2"},
		{slice, "endpoints[2].addresses[0]", ""},
		{slice, "endpoints", ""},
		{slice, "ports[0].name", ""},
		{slice, "subsets[0].addresses[0].ip", ""},
		{legacy, "subsets[0].addresses[0].ip", "10.0.0.3"},
		{legacy, "subsets[1].addresses[1].ip", "10.0.0.5"},
		{legacy, "subsets[1].notReadyAddresses[0].ip", "10.0.0.6"},
		{legacy, "subsets[0].addresses[1].ip", ""},
		{legacy, "subsets[0].notReadyAddresses[0].ip", ""},
		{legacy, "subsets[2].addresses[0].ip", ""},
		{legacy, "subsets[0].ports[0].name", ""},
		{legacy, "endpoints[0].addresses[0]", ""},
		{legacy, "metadata.name", ""},
	} {
		address, _, ok := endpointAt(c.o, c.field)
		if address != c.want || ok != (c.want != "") {
			t.Errorf("%s of %s names %q, %v; want %q", c.field, object.KindOf(c.o), address, ok, c.want)
		}
	}
}
