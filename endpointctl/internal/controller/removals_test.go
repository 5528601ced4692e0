package controller

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"

	"portolan.dev/endpointctl/internal/registrytest"
)

// wantFailing checks that the service counts as failing, for the given reason, and that an event says so.
func wantFailing(t *testing.T, r *registrytest.Registry, c *Controller, failing func() float64, reason string) {
	t.Helper()
	kittest.Eventually(t, "the failure to be reported", func() error {
		failure, failed := c.Failure(web)
		said := slices.ContainsFunc(eventsIn(r), func(e string) bool {
			return strings.Contains(e, updateFailedReason) && strings.Contains(e, reason)
		})
		if !failed || !strings.Contains(failure.Message, reason) || failing() != 1 || !said {
			return fmt.Errorf("failed %v: %q; %v services fail; events %q", failed, failure.Message, failing(), eventsIn(r))
		}
		return nil
	})
}

// TestNothingThatIsRefusedHoldsBackRemovals has a registry that refuses the new slices of a service, each time for
// another reason. The pod that is deleted, and the one that is not ready any more, leave the slices and the Endpoints
// that are there, the new pod is in none, and the service counts as failing at once. Later all is as wanted.
func TestNothingThatIsRefusedHoldsBackRemovals(t *testing.T) {
	for name, refusal := range map[string]struct {
		err    func(o object.Object) error
		reason string
	}{
		"more ports than allowed": {func(o object.Object) error { return invalid(o, "ports", "has 2 entries, at most 1 are allowed") }, "ports: has 2 entries"},
		"a quota":                 {func(object.Object) error { return apierr.Exhausted("endpointslices", "the quota is used up") }, "the quota is used up"},
		"the role":                {func(object.Object) error { return apierr.PermissionDenied("the role may not write it") }, "the role may not write it"},
	} {
		t.Run(name, func(t *testing.T) {
			r := registrytest.New(t)
			r.Put(service(), pod("p1", "10.0.0.1"), pod("p2", "10.0.0.2"), pod("p3", "10.0.0.3"))
			c, reg := run(t, r, func(cfg *Config) { cfg.LastingFailure = time.Hour })
			waitFor(t, r, "10.0.0.1 10.0.0.2 10.0.0.3 / 10.0.0.1 10.0.0.2 10.0.0.3")
			r.Fail(func(op string, o object.Object) error {
				legacy, _ := o.(*corev1.Endpoints)
				slice, _ := o.(*corev1.EndpointSlice)
				if op != opDelete && (len(slice.GetPorts()) > 1 || slices.ContainsFunc(legacy.GetSubsets(), func(s *corev1.EndpointSubset) bool { return len(s.GetPorts()) > 1 })) {
					return refusal.err(o)
				}
				return nil
			})
			two := service()
			two.Spec.Ports = []*corev1.ServicePort{{Name: "a", Port: 80}, {Name: "b", Port: 81}}
			r.Put(two, pod("p4", "10.0.0.4"))
			wantFailing(t, r, c, func() float64 { return gauge(t, reg, failing) }, refusal.reason)
			unready := pod("p2", "10.0.0.2")
			unready.Status.Conditions[0].Status = corev1.ConditionStatus_CONDITION_STATUS_FALSE
			r.Put(unready)
			r.Delete(pod("p1", ""))
			waitFor(t, r, "10.0.0.2 10.0.0.3 / 10.0.0.3")
			for _, s := range registrytest.All[*corev1.EndpointSlice](r) {
				for _, ep := range s.GetEndpoints() {
					if got := ep.GetConditions().GetReady(); got != (ep.GetAddresses()[0] == "10.0.0.3") {
						t.Errorf("%s is ready: %v", ep.GetAddresses()[0], got)
					}
				}
			}
			r.Delete(unready)
			r.Delete(pod("p3", ""))
			waitFor(t, r, " / ")
			wantFailing(t, r, c, func() float64 { return gauge(t, reg, failing) }, refusal.reason)
			r.Fail(nil)
			r.Put(pod("p5", "10.0.0.5"))
			waitFor(t, r, "10.0.0.4 10.0.0.5 / 10.0.0.4 10.0.0.5")
			kittest.Eventually(t, "the failure to be over", func() error {
				if _, failed := c.Failure(web); failed || gauge(t, reg, failing) != 0 {
					return fmt.Errorf("failed %v", failed)
				}
				return nil
			})
		})
	}
}

// TestARefusedFamilyHoldsBackNoRemovalOfTheOther has a service of both families. The registry refuses to create slices
// of IPv6 for lack of room, so the later stage with the deletions of the plan is not begun.
func TestARefusedFamilyHoldsBackNoRemovalOfTheOther(t *testing.T) {
	r := registrytest.New(t)
	svc := service()
	svc.Spec.IpFamilies = append(svc.Spec.IpFamilies, corev1.IPFamily_IP_FAMILY_IPV6)
	for i := range 3 {
		r.Put(pod(fmt.Sprint("p", i), fmt.Sprint("10.0.0.", i)))
	}
	r.Put(svc)
	c, reg := run(t, r, func(cfg *Config) { cfg.MaxPerSlice = 1 })
	waitFor(t, r, "10.0.0.0 10.0.0.1 10.0.0.2 / 10.0.0.0 10.0.0.1 10.0.0.2")
	r.Fail(func(op string, o object.Object) error {
		if op == opCreate && object.KindOf(o) == "EndpointSlice" {
			return apierr.Exhausted("endpointslices", "the quota is used up")
		}
		return nil
	})
	for i := range 2 { // the second does not fit into the empty slice of the family
		both := pod(fmt.Sprint("q", i), "")
		both.Status.PodIps = []string{fmt.Sprint("fd00::", i+1)}
		r.Put(both)
	}
	r.Delete(pod("p1", ""))
	waitFor(t, r, "10.0.0.0 10.0.0.2 fd00::1 / 10.0.0.0 10.0.0.2")
	wantFailing(t, r, c, func() float64 { return gauge(t, reg, failing) }, "the quota is used up")
}

// TestARefusedEndpointsHoldsBackNoSlice has a registry that refuses the Endpoints. The stages of the slices are all made,
// and the service counts as failing.
func TestARefusedEndpointsHoldsBackNoSlice(t *testing.T) {
	r := registrytest.New(t)
	r.Put(service())
	for i := range 3 {
		r.Put(pod(fmt.Sprint("p", i), fmt.Sprint("10.0.0.", i)))
	}
	c, reg := run(t, r, func(cfg *Config) { cfg.MaxPerSlice = 1 })
	waitFor(t, r, "10.0.0.0 10.0.0.1 10.0.0.2 / 10.0.0.0 10.0.0.1 10.0.0.2")
	r.Fail(func(_ string, o object.Object) error {
		if object.KindOf(o) == "Endpoints" {
			return invalid(o, "metadata", "is too large")
		}
		return nil
	})
	changed := service()
	changed.Spec.Ports[0].Port = 90
	r.Put(changed, pod("p3", "10.0.0.3"))
	r.Delete(pod("p1", ""))
	r.Delete(pod("p2", ""))
	waitFor(t, r, "10.0.0.0 10.0.0.3 / 10.0.0.0 10.0.0.1 10.0.0.2")
	wantFailing(t, r, c, func() float64 { return gauge(t, reg, failing) }, "metadata: is too large")
	if n := len(registrytest.All[*corev1.EndpointSlice](r)); n != 2 {
		t.Errorf("%d slices, want 2", n)
	}
}

// TestWhatIsRefusedHoldsBackNoRemovalOfMirroredAddresses is the same for an Endpoints written by hand.
func TestWhatIsRefusedHoldsBackNoRemovalOfMirroredAddresses(t *testing.T) {
	byHand := func(ports int, ips ...string) *corev1.Endpoints {
		e := &corev1.Endpoints{Metadata: &corev1.ObjectMeta{Name: "web", Namespace: "default"}, Subsets: []*corev1.EndpointSubset{{}}}
		for i := range ports {
			e.Subsets[0].Ports = append(e.Subsets[0].Ports, &corev1.EndpointSubsetPort{Name: fmt.Sprint("p", i), Port: 80})
		}
		for _, ip := range ips {
			e.Subsets[0].Addresses = append(e.Subsets[0].Addresses, &corev1.EndpointAddress{Ip: ip})
		}
		return e
	}
	r := registrytest.New(t)
	svc := service()
	svc.Spec.Selector = nil
	r.Put(svc, byHand(1, "10.0.0.1", "10.0.0.2"))
	c, reg := run(t, r, nil)
	waitFor(t, r, "10.0.0.1 10.0.0.2 / 10.0.0.1 10.0.0.2")
	r.Fail(func(_ string, o object.Object) error {
		if s, ok := o.(*corev1.EndpointSlice); ok && len(s.GetPorts()) > 1 {
			return invalid(o, "ports", "has 2 entries, at most 1 are allowed")
		}
		return nil
	})
	r.Put(byHand(2, "10.0.0.2", "10.0.0.3"))
	waitFor(t, r, "10.0.0.2 / 10.0.0.2 10.0.0.3")
	wantFailing(t, r, c, func() float64 { return gauge(t, reg, failing) }, "ports: has 2 entries")
	r.Put(byHand(1, "10.0.0.2", "10.0.0.3"))
	waitFor(t, r, "10.0.0.2 10.0.0.3 / 10.0.0.2 10.0.0.3")
}

// TestRemovalsAreRepeatedWithTheSyncIfTheRegistryIsAway checks that a failure that passes by itself leads to no further
// calls, because the sync is repeated with its removals.
func TestRemovalsAreRepeatedWithTheSyncIfTheRegistryIsAway(t *testing.T) {
	d := newManual(t, service(), pod("p1", "10.0.0.1"), pod("p2", "10.0.0.2"))
	d.deliver(3)
	d.wantAddresses("at first", "10.0.0.1 10.0.0.2 / 10.0.0.1 10.0.0.2")
	gone := proto.CloneOf(pod("p2", "10.0.0.2"))
	gone.Metadata.Labels = nil
	d.registry.Put(gone)
	d.deliver(2) // the slice and the Endpoints
	d.deliver(1)
	calls := len(d.registry.Calls())
	d.registry.Fail(func(string, object.Object) error { return registrytest.Unavailable })
	if err := d.sync(); !apierr.IsUnavailable(err) {
		t.Errorf("the sync returned %v", err)
	}
	if n := len(d.registry.Calls()) - calls; n != 1 {
		t.Errorf("%d calls", n)
	}
	d.registry.Fail(nil)
	d.wantAddresses("at the end", "10.0.0.1 / 10.0.0.1")
}

// TestNoStageDependsOnAnEndpoints has stages of which the first fails. The later stages are made if it is an Endpoints
// that fails, and are not begun if it is a slice.
func TestNoStageDependsOnAnEndpoints(t *testing.T) {
	for _, c := range []struct {
		first object.Object
		want  int // slices
	}{
		{&corev1.Endpoints{Metadata: &corev1.ObjectMeta{Name: "web", Namespace: "default"}}, 1},
		{&corev1.EndpointSlice{Metadata: &corev1.ObjectMeta{Name: "web-1", Namespace: "default"}}, 0},
	} {
		d := newManual(t)
		d.registry.Fail(func(_ string, o object.Object) error {
			if object.KeyOf(o) == object.KeyOf(c.first) {
				return invalid(o, "metadata", "is too large")
			}
			return nil
		})
		sync := &task{c: d.shard, writer: d.writer, key: web}
		err := sync.makeStages(t.Context(), [][]write{{{opCreate, c.first}}, {{opCreate, &corev1.EndpointSlice{Metadata: &corev1.ObjectMeta{Name: "web-2", Namespace: "default"}}}}})
		if n := len(registrytest.All[*corev1.EndpointSlice](d.registry)); apierr.Code(err) != codes.InvalidArgument || n != c.want {
			t.Errorf("after the failure of %s: %v, %d slices, want %d", object.KindOf(c.first), err, n, c.want)
		}
	}
}
