package pool

import (
	"slices"
	"testing"

	"google.golang.org/grpc/codes"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// change changes a service of the view, and returns the new version.
func (w *world) change(name string, changes ...func(*corev1.Service)) *corev1.Service {
	svc := w.services[name].CloneVT()
	for _, c := range changes {
		c(svc)
	}
	w.put(name, svc)
	return svc
}

// sync ensures a service once, and writes the answer into its status, as lbctl does.
func (w *world) sync(name string, want ...string) {
	w.Helper()
	svc := w.services[name]
	got, err := w.ensure(svc)
	if err != nil || !slices.Equal(got, want) {
		w.Errorf("%s has %v, %v; want %v", name, got, err, want)
		return
	}
	w.change(name, func(svc *corev1.Service) {
		svc.Status = &corev1.ServiceStatus{LoadBalancer: &corev1.LoadBalancerStatus{}}
		for _, ip := range got {
			svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, &corev1.LoadBalancerIngress{Ip: ip})
		}
	})
}

func withoutAnnotation(name string) func(*corev1.Service) {
	return func(svc *corev1.Service) { delete(svc.Metadata.Annotations, name) }
}

// TestServicesOfAShareMoveTogether changes the requests of two services one after the other. The first has to wait for
// the second, and both addresses belong to the share until both have the new one.
func TestServicesOfAShareMoveTogether(t *testing.T) {
	for name, restart := range map[string]bool{"one process": false, "a new leader between all steps": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "192.0.2.0/29")
			between := func() {
				if restart {
					w.restart(w.provider.cfg)
				}
			}
			w.keep(service("web", shared("k", 80), ips("192.0.2.1")), "192.0.2.1")
			w.keep(service("dns", shared("k", 53), ips("192.0.2.1")), "192.0.2.1")
			share := spec.OwnerOfAddresses(w.services["web"]).UID
			first := "192.0.2.1 " + share + " loadBalancer/ipv4"
			between()
			w.refuse(w.change("web", ips("192.0.2.5")), codes.FailedPrecondition, "dns, which has the same sharing key \"k\", requests 192.0.2.1")
			w.allocator.want(t, first)
			between()
			w.sync("dns", "192.0.2.1") // keeps what it has and requests
			w.change("dns", ips("192.0.2.5"))
			between()
			w.sync("dns", "192.0.2.5")
			between()
			w.sync("dns", "192.0.2.5")
			w.allocator.want(t, first, "192.0.2.5? "+share+" loadBalancer/ipv4")
			between()
			w.sync("web", "192.0.2.5")
			w.allocator.want(t, first, "192.0.2.5? "+share+" loadBalancer/ipv4")
			between()
			w.sync("web", "192.0.2.5")
			w.allocator.want(t, "192.0.2.5 "+share+" loadBalancer/ipv4")
		})
	}
}

// TestAServiceWithoutARequestFollowsItsShare has one service request another address while two others request none.
func TestAServiceWithoutARequestFollowsItsShare(t *testing.T) {
	w := newWorld(t, "192.0.2.0/29")
	for n, name := range []string{"a", "b", "c"} {
		w.keep(service(name, shared("k", int32(80+n))), "192.0.2.1")
	}
	share := spec.OwnerOfAddresses(w.services["a"]).UID
	w.change("b", ips("192.0.2.5"))
	w.sync("b", "192.0.2.5")
	w.sync("a", "192.0.2.5")

	// The request is taken back in the middle. The share goes on to the address that it claimed last.
	w.change("b", withoutAnnotation(object.AnnotationBalancerIPs))
	for _, name := range []string{"b", "c", "a", "b", "c"} {
		w.sync(name, "192.0.2.5")
	}
	w.allocator.want(t, "192.0.2.5 "+share+" loadBalancer/ipv4")
}

// TestRequestsThatDisagreeMoveNothing has two services of a share request different addresses. Each keeps the address
// that both have, and the one that requests it stays in order, also after a restart.
func TestRequestsThatDisagreeMoveNothing(t *testing.T) {
	w := newWorld(t, "192.0.2.0/29")
	w.keep(service("web", shared("k", 80), ips("192.0.2.1")), "192.0.2.1")
	w.keep(service("dns", shared("k", 53)), "192.0.2.1")
	w.restart(w.provider.cfg)
	w.refuse(w.change("dns", ips("192.0.2.5")), codes.FailedPrecondition, "web, which has the same sharing key \"k\", requests 192.0.2.1")
	w.sync("web", "192.0.2.1")
	w.allocator.want(t, "192.0.2.1 "+spec.OwnerOfAddresses(w.services["web"]).UID+" loadBalancer/ipv4")

	// A service that was moved to the key with the address of its former share is no member yet.
	w.change("dns", withoutAnnotation(object.AnnotationBalancerIPs))
	w.keep(service("other", shared("old", 8080), ips("192.0.2.6")), "192.0.2.6")
	w.refuse(w.change("other", shared("k", 8080)), codes.FailedPrecondition, "requests 192.0.2.1")
}

// TestTheOrderOfServicesMakesNoDifference makes three services in each order, two of which request the same address.
func TestTheOrderOfServicesMakesNoDifference(t *testing.T) {
	requests := map[string]func(*corev1.Service){"any": ips(""), "web": ips("192.0.2.5"), "dns": ips("192.0.2.5")}
	for _, order := range [][]string{{"any", "web", "dns"}, {"web", "any", "dns"}, {"web", "dns", "any"}} {
		w := newWorld(t, "192.0.2.0/29")
		for n, name := range order {
			w.put(name, service(name, shared("k", int32(80+n)), requests[name]))
			if _, err := w.ensure(w.services[name]); err != nil {
				t.Errorf("%v: %s: %v", order, name, err)
			}
		}
		for range 2 {
			for _, name := range order {
				w.sync(name, "192.0.2.5")
			}
		}
		w.allocator.want(t, "192.0.2.5 "+spec.OwnerOfAddresses(w.services["web"]).UID+" loadBalancer/ipv4")
	}
}

// TestAServiceThatStopsSharingAloneKeepsItsAddress removes and changes the key of the only service of a share. The
// address is in use, and nothing else shares it.
func TestAServiceThatStopsSharingAloneKeepsItsAddress(t *testing.T) {
	w := newWorld(t, "192.0.2.0/29")
	w.keep(service("web", shared("k", 80)), "192.0.2.1")
	w.keep(w.change("web", withoutAnnotation(object.AnnotationBalancerShare)), "192.0.2.1")
	w.allocator.want(t, "192.0.2.1 web loadBalancer/ipv4")

	w.keep(w.change("web", shared("k", 80)), "192.0.2.1")
	w.restart(w.provider.cfg)
	w.keep(w.change("web", shared("other", 80)), "192.0.2.1")
	w.allocator.want(t, "192.0.2.1 "+spec.OwnerOfAddresses(w.services["web"]).UID+" loadBalancer/ipv4")
	w.restart(w.provider.cfg)
	w.keep(w.change("web", withoutAnnotation(object.AnnotationBalancerShare)), "192.0.2.1")
	w.allocator.want(t, "192.0.2.1 web loadBalancer/ipv4")
	w.delete(w.services["web"])
	w.allocator.want(t)
}

// TestAServiceThatLeavesAShareGetsAnotherAddress removes the key of one of two services.
func TestAServiceThatLeavesAShareGetsAnotherAddress(t *testing.T) {
	w := newWorld(t, "192.0.2.0/29")
	w.keep(service("web", shared("k", 80)), "192.0.2.1")
	w.keep(service("dns", shared("k", 53)), "192.0.2.1")
	share := spec.OwnerOfAddresses(w.services["web"]).UID
	w.keep(w.change("dns", withoutAnnotation(object.AnnotationBalancerShare)), "192.0.2.2")
	w.allocator.want(t, "192.0.2.1 "+share+" loadBalancer/ipv4", "192.0.2.2 dns loadBalancer/ipv4")
	// The other one is alone now.
	w.keep(w.change("web", withoutAnnotation(object.AnnotationBalancerShare)), "192.0.2.1")
	w.allocator.want(t, "192.0.2.1 web loadBalancer/ipv4", "192.0.2.2 dns loadBalancer/ipv4")
}

// TestServicesMoveToAnotherKeyTogether gives two services that request the address another key, one after the other.
func TestServicesMoveToAnotherKeyTogether(t *testing.T) {
	w := newWorld(t, "192.0.2.0/29")
	w.keep(service("web", shared("k", 80), ips("192.0.2.1")), "192.0.2.1")
	w.keep(service("dns", shared("k", 53), ips("192.0.2.1")), "192.0.2.1")
	w.refuse(w.change("web", shared("new", 80)), codes.FailedPrecondition, "belongs to another service")
	w.change("dns", shared("new", 53))
	w.sync("dns", "192.0.2.1")
	w.sync("web", "192.0.2.1")
	w.keep(w.services["dns"], "192.0.2.1")
	w.allocator.want(t, "192.0.2.1 "+spec.OwnerOfAddresses(w.services["web"]).UID+" loadBalancer/ipv4")
}
