package loadbalancers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// otherFinalizer is a finalizer of another program.
const otherFinalizer = "example.com/keeps"

func withFinalizer(svc *corev1.Service) {
	svc.Metadata.Finalizers = append(svc.Metadata.Finalizers, otherFinalizer)
}

// TestADeletedServiceThatStaysHasNoAddress deletes a service that a finalizer of another program keeps. Its address
// goes to another service, so it must not be in the status of the first one.
func TestADeletedServiceThatStaysHasNoAddress(t *testing.T) {
	i := install(t)
	i.create(balanced("old", withFinalizer))
	got := i.awaitAddresses("old", 1)[0]
	i.create(balanced("new", annotate(object.AnnotationBalancerIPs, got)))
	i.awaitReason("new", "Refused", "belongs to another service")
	i.delete("old")
	i.awaitExactly("new", got)
	svc := i.get("old")
	if svc == nil || len(addresses(svc)) > 0 || !slices.Equal(svc.GetMetadata().GetFinalizers(), []string{otherFinalizer}) {
		t.Errorf("the deleted service is %v, want it without an address and with the other finalizer", svc)
	}
	for _, condition := range svc.GetStatus().GetConditions() {
		t.Errorf("the deleted service has the condition %v", condition)
	}
	i.update("old", func(svc *corev1.Service) { svc.Metadata.Finalizers = nil })
	i.awaitGone("old")
	i.awaitExactly("new", got)
}

// deletions records the addresses in the status of a service at each call of DeleteLoadBalancer.
type deletions struct {
	mu   sync.Mutex
	seen [][]string // guarded by mu
}

// TestTheStatusLosesTheAddressBeforeTheProviderDoes deletes a service, gives one another type, and kills lbctl between
// the two steps.
func TestTheStatusLosesTheAddressBeforeTheProviderDoes(t *testing.T) {
	p := newProvider(t)
	i := install(t, p.serves(metal))
	var calls deletions
	reached, proceed := make(chan struct{}, 1), make(chan struct{})
	p.Fail(func(ctx context.Context, call, name string) (bool, error) {
		if call != "Delete" {
			return false, nil
		}
		calls.mu.Lock()
		calls.seen = append(calls.seen, addresses(i.get(name)))
		calls.mu.Unlock()
		select {
		case reached <- struct{}{}:
		default:
		}
		select {
		case <-proceed:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}, nil)
	for _, name := range []string{"deleted", "retyped"} {
		i.create(balanced(name, class(metal), withFinalizer))
		i.awaitAddresses(name, 1)
	}
	i.delete("deleted")
	i.update("retyped", func(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP })
	<-reached
	i.stopLBCtl()
	if n := len(p.Balancers()); n != 2 {
		t.Fatalf("%d load balancers are left before a call of Delete has returned", n)
	}
	i.startLBCtl(p.serves(metal))
	close(proceed)
	p.awaitBalancers()
	for _, name := range []string{"deleted", "retyped"} {
		kittest.Eventually(t, "the end of lbctl's work on "+name, func() error { return onlyFinalizer(i.get(name)) })
	}
	calls.mu.Lock()
	defer calls.mu.Unlock()
	for _, had := range calls.seen {
		if len(had) > 0 {
			t.Errorf("the provider was called while the status had %v", had)
		}
	}
}

// onlyFinalizer returns an error unless a service has the finalizer of the other program only.
func onlyFinalizer(svc *corev1.Service) error {
	if got := svc.GetMetadata().GetFinalizers(); !slices.Equal(got, []string{otherFinalizer}) {
		return fmt.Errorf("it has the finalizers %v", got)
	}
	return nil
}

// TestAnAddressThatAnEarlierReleaseLeftBehindIsRemoved has a service in deletion that has lost lbctl's finalizer and
// kept its address.
func TestAnAddressThatAnEarlierReleaseLeftBehindIsRemoved(t *testing.T) {
	i := install(t)
	i.create(balanced("old", withFinalizer))
	i.awaitAddresses("old", 1)
	i.stopLBCtl()
	i.delete("old")
	i.update("old", func(svc *corev1.Service) { svc.Metadata.Finalizers = []string{otherFinalizer} })
	i.startLBCtl()
	i.awaitExactly("old")
}
