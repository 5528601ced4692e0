package providertest

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	loadbalancerv1 "portolan.dev/api/loadbalancer/v1"
	"portolan.dev/services/balancer"
	"portolan.dev/services/kit/kittest"
)

// Subject is a provider under test.
type Subject struct {
	Client loadbalancerv1.LoadBalancerProviderServiceClient
	// Left lists the resources of all load balancers, such as addresses or rules, as texts for messages. If
	// Left is not nil, it must return the same before and after each test.
	Left func() ([]string, error)
	// Class is the class of the services; "": services without a class.
	Class string
	// Change, if it is not nil, adds the fields that the provider needs to the services of the tests.
	Change func(*corev1.Service)
}

// Run runs the suite. Each test needs at most three load balancers at a time.
func Run(t *testing.T, s Subject) {
	t.Helper()
	for name, test := range map[string]func(*run){
		"Capabilities":                        (*run).capabilities,
		"AnUnknownServiceHasNone":             (*run).unknown,
		"RepeatedCallsChangeNothing":          (*run).repeated,
		"ServicesAreKnownByUID":               (*run).byUID,
		"SimultaneousCallsMakeOne":            (*run).simultaneous,
		"ADeletionLeavesNothing":              (*run).deletion,
		"AServiceWithoutUIDIsRefused":         (*run).withoutUID,
		"AnEndedCallLeavesNothingAfterDelete": (*run).ended,
		"ChangesKeepTheAddress":               (*run).changes,
		"EachProtocolIsServed":                (*run).protocols,
		"ProtocolsMayBeMixed":                 (*run).mixed,
		"InternalLoadBalancers":               (*run).internal,
	} {
		t.Run(name, func(t *testing.T) {
			r := &run{T: t, Subject: s}
			before := r.left()
			test(r)
			kittest.Eventually(t, "nothing to be left", func() error {
				if after := r.left(); !slices.Equal(before, after) {
					return fmt.Errorf("there was %q, and now there is %q", before, after)
				}
				return nil
			})
		})
	}
}

// run is one test.
type run struct {
	*testing.T
	Subject
}

func (r *run) left() []string {
	r.Helper()
	if r.Left == nil {
		return nil
	}
	all, err := r.Left()
	if err != nil {
		r.Fatal(err)
	}
	return slices.Sorted(slices.Values(all))
}

// service returns a service of the suite with a uid of its own.
func (r *run) service(name string) *corev1.Service {
	svc := &corev1.Service{
		Metadata: &corev1.ObjectMeta{Name: name, Namespace: "providertest", Uid: "providertest-" + rand.Text()},
		Spec: &corev1.ServiceSpec{
			Type: corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, IpFamilies: []corev1.IPFamily{corev1.IPFamily_IP_FAMILY_IPV4},
			Ports: []*corev1.ServicePort{{Name: "web", Port: 80, NodePort: 30080, Protocol: corev1.Protocol_PROTOCOL_TCP}},
		},
	}
	if r.Class != "" {
		svc.Spec.LoadBalancerClass = &r.Class
	}
	if r.Change != nil {
		r.Change(svc)
	}
	return svc
}

// nodes returns nodes n1, n2 and so on.
func nodes(count int) []*corev1.Node {
	all := make([]*corev1.Node, count)
	for i := range all {
		all[i] = &corev1.Node{
			Metadata: &corev1.ObjectMeta{Name: fmt.Sprint("n", i+1), Uid: fmt.Sprint("uid-n", i+1)},
			Status:   &corev1.NodeStatus{Addresses: []*corev1.NodeAddress{{Type: "InternalIP", Address: fmt.Sprint("198.51.100.", i+1)}}},
		}
	}
	return all
}

// ensure calls Ensure until it is not pending, and returns the state, which must have an address.
func (r *run) ensure(svc *corev1.Service) *corev1.LoadBalancerStatus {
	r.Helper()
	var state *corev1.LoadBalancerStatus
	kittest.Eventually(r.T, "the load balancer of "+svc.GetMetadata().GetName(), func() error {
		resp, err := r.Client.EnsureLoadBalancer(r.Context(), &loadbalancerv1.EnsureLoadBalancerRequest{
			Service: svc, Nodes: nodes(2), Internal: balancer.Internal(svc) != "",
		})
		if err == nil && resp.GetPending() {
			err = status.Error(codes.Unavailable, "pending")
		}
		state = resp.GetStatus()
		return err
	})
	if len(texts(state)) == 0 {
		r.Fatalf("the load balancer of %s has no address: %v", svc.GetMetadata().GetName(), state)
	}
	r.checkPorts(svc, state)
	return state
}

// delete calls Delete until it is not pending.
func (r *run) delete(svc *corev1.Service) {
	r.Helper()
	kittest.Eventually(r.T, "the deletion", func() error {
		resp, err := r.Client.DeleteLoadBalancer(r.Context(), &loadbalancerv1.DeleteLoadBalancerRequest{Service: svc})
		if err == nil && resp.GetPending() {
			err = status.Error(codes.Unavailable, "pending")
		}
		return err
	})
}

func (r *run) get(svc *corev1.Service) (*corev1.LoadBalancerStatus, error) {
	meta := svc.GetMetadata()
	resp, err := r.Client.GetLoadBalancer(r.Context(), &loadbalancerv1.GetLoadBalancerRequest{Namespace: meta.GetNamespace(), Name: meta.GetName(), Uid: meta.GetUid()})
	return resp.GetStatus(), err
}

func (r *run) update(svc *corev1.Service, count int) error {
	_, err := r.Client.UpdateLoadBalancer(r.Context(), &loadbalancerv1.UpdateLoadBalancerRequest{Service: svc, Nodes: nodes(count)})
	return err
}

func (r *run) wantCode(what string, err error, want codes.Code) {
	r.Helper()
	if status.Code(err) != want {
		r.Errorf("%s: %v, want %s", what, err, want)
	}
}

// texts returns the addresses and names of a load balancer, sorted.
func texts(state *corev1.LoadBalancerStatus) []string {
	var all []string
	for _, ingress := range state.GetIngress() {
		if text := ingress.GetIp() + ingress.GetHostname(); text != "" {
			all = append(all, text)
		}
	}
	slices.Sort(all)
	return all
}

func (r *run) wantSame(what string, got, want *corev1.LoadBalancerStatus) {
	r.Helper()
	if !slices.Equal(texts(got), texts(want)) {
		r.Errorf("%s: the load balancer has %v, want %v", what, texts(got), texts(want))
	}
}

func (r *run) unknown() {
	svc := r.service("nobody")
	_, err := r.get(svc)
	r.wantCode("Get", err, codes.NotFound)
	r.wantCode("Update", r.update(svc, 1), codes.NotFound)
	r.delete(svc)
}

func (r *run) repeated() {
	svc := r.service("web")
	first := r.ensure(svc)
	r.wantSame("a repeated Ensure", r.ensure(svc), first)
	found, err := r.get(svc)
	r.wantCode("Get", err, codes.OK)
	r.wantSame("Get", found, first)
	svc.Status = &corev1.ServiceStatus{LoadBalancer: first} // as lbctl writes it in between
	r.wantSame("Ensure after the status was written", r.ensure(svc), first)
	for _, count := range []int{1, 3, 0} {
		r.wantCode(fmt.Sprintf("Update to %d nodes", count), r.update(svc, count), codes.OK)
	}
	r.wantSame("Ensure after updates", r.ensure(svc), first)
	r.delete(svc)
	r.delete(svc)
}

func (r *run) byUID() {
	a, b := r.service("web"), r.service("web")
	first, second := r.ensure(a), r.ensure(b)
	if slices.Equal(texts(first), texts(second)) {
		r.Errorf("two services of one name both have %v", texts(first))
	}
	r.delete(a)
	found, err := r.get(b)
	r.wantCode("Get of the other after the deletion of one", err, codes.OK)
	r.wantSame("the other after the deletion of one", found, second)
	_, err = r.get(a)
	r.wantCode("Get of the deleted one", err, codes.NotFound)
	r.delete(b)
}

func (r *run) simultaneous() {
	svc := r.service("web")
	const calls = 8
	states := make([]*corev1.LoadBalancerStatus, calls)
	var running sync.WaitGroup
	for i := range calls {
		running.Go(func() {
			resp, err := r.Client.EnsureLoadBalancer(r.Context(), &loadbalancerv1.EnsureLoadBalancerRequest{Service: svc, Nodes: nodes(2)})
			if err == nil && !resp.GetPending() {
				states[i] = resp.GetStatus()
			}
		})
	}
	running.Wait()
	final := r.ensure(svc)
	for _, state := range states {
		if state != nil {
			r.wantSame("a simultaneous Ensure", state, final)
		}
	}
	r.delete(svc)
}

func (r *run) deletion() {
	svc := r.service("web")
	r.ensure(svc)
	r.delete(svc)
	_, err := r.get(svc)
	r.wantCode("Get after Delete", err, codes.NotFound)
	r.wantCode("Update after Delete", r.update(svc, 1), codes.NotFound)
	r.ensure(svc) // it can be made anew
	r.delete(svc)
}

func (r *run) withoutUID() {
	svc := r.service("web")
	svc.Metadata.Uid = ""
	_, err := r.Client.EnsureLoadBalancer(r.Context(), &loadbalancerv1.EnsureLoadBalancerRequest{Service: svc})
	r.wantCode("Ensure", err, codes.InvalidArgument)
}

// ended ends calls of Ensure after different times, as a leader does when it loses its lease.
func (r *run) ended() {
	for after := time.Microsecond; after < 20*time.Millisecond; after *= 4 {
		svc := r.service("web")
		ctx, cancel := context.WithTimeout(r.Context(), after)
		_, _ = r.Client.EnsureLoadBalancer(ctx, &loadbalancerv1.EnsureLoadBalancerRequest{Service: svc, Nodes: nodes(1)})
		cancel()
		r.ensure(svc) // waits until the provider has finished the call that was ended
		r.delete(svc)
	}
}

func (r *run) changes() {
	svc := r.service("web")
	first := r.ensure(svc)
	svc.Status = &corev1.ServiceStatus{LoadBalancer: first}
	svc.Spec.Ports = append(svc.Spec.Ports, &corev1.ServicePort{Name: "more", Port: 443, NodePort: 30443, Protocol: corev1.Protocol_PROTOCOL_TCP})
	r.wantSame("with another port", r.ensure(svc), first)
	svc.Spec.ExternalTrafficPolicy = corev1.TrafficPolicy_TRAFFIC_POLICY_LOCAL
	r.wantSame("with another policy", r.ensure(svc), first)
	r.delete(svc)
}
