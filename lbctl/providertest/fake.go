package providertest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	loadbalancerv1 "portolan.dev/api/loadbalancer/v1"
)

// Fake is a provider with load balancers in memory only. It keeps the contract, and can be made to fail. It is
// safe for concurrent use.
type Fake struct {
	loadbalancerv1.UnimplementedLoadBalancerProviderServiceServer

	// Can has the fake's capabilities. It must not be changed after the first call.
	Can *loadbalancerv1.GetCapabilitiesResponse
	// Mode is the mode of the fake's addresses. It must not be changed after the first call.
	Mode corev1.IPMode
	// PortErrors are the errors of ports by their protocols. They stand for a provider that learns only while
	// it makes a load balancer that it cannot serve a port. They must not be changed after the first call.
	PortErrors map[corev1.Protocol]string

	mu        sync.Mutex
	balancers map[string]*Balancer // guarded by mu: by the uid of the service
	made      int                  // guarded by mu: balancers that were ever made
	before    Hook                 // guarded by mu
	after     Hook                 // guarded by mu
}

// Balancer is a load balancer of a [Fake].
type Balancer struct {
	IP       string
	Nodes    []string // names of the nodes
	Internal bool
	Ports    []*corev1.ServicePort
}

// Hook may delay or fail a call, such as "Ensure", for the service with a name. If it returns pending, the call
// succeeds without having finished.
type Hook func(ctx context.Context, call, service string) (pending bool, err error)

// NewFake returns a provider without load balancers.
func NewFake() *Fake {
	return &Fake{balancers: map[string]*Balancer{}, Mode: corev1.IPMode_IP_MODE_PROXY, Can: &loadbalancerv1.GetCapabilitiesResponse{
		Name: "fake", Protocols: []corev1.Protocol{corev1.Protocol_PROTOCOL_TCP},
		Families: []corev1.IPFamily{corev1.IPFamily_IP_FAMILY_IPV4},
	}}
}

// Fail sets hooks that run before a call has an effect and after it has had it; nil: none.
func (f *Fake) Fail(before, after Hook) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.after = before, after
}

// Balancers returns the load balancers that exist, sorted by address.
func (f *Fake) Balancers() []Balancer {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []Balancer
	for _, b := range f.balancers {
		all = append(all, *b)
	}
	slices.SortFunc(all, func(a, b Balancer) int { return slices.Compare([]byte(a.IP), []byte(b.IP)) })
	return all
}

// do runs a call between the hooks.
func (f *Fake) do(ctx context.Context, call, service string, effect func() error) (pending bool, err error) {
	f.mu.Lock()
	before, after := f.before, f.after
	f.mu.Unlock()
	if before != nil {
		if pending, err := before(ctx, call, service); pending || err != nil {
			return pending, err
		}
	}
	f.mu.Lock()
	// A call that its caller has given up must have no effect, because it may run after the deletion.
	err = status.FromContextError(ctx.Err()).Err()
	if err == nil {
		err = effect()
	}
	f.mu.Unlock()
	if err == nil && after != nil {
		return after(ctx, call, service)
	}
	return false, err
}

func (f *Fake) statusOf(b *Balancer) *corev1.LoadBalancerStatus {
	ingress := &corev1.LoadBalancerIngress{Ip: b.IP, IpMode: f.Mode}
	for _, port := range b.Ports {
		state := &corev1.PortStatus{Port: port.GetPort(), Protocol: port.GetProtocol()}
		if why := f.PortErrors[port.GetProtocol()]; why != "" {
			state.Error = &why
		}
		if len(f.PortErrors) > 0 {
			ingress.Ports = append(ingress.Ports, state)
		}
	}
	return &corev1.LoadBalancerStatus{Ingress: []*corev1.LoadBalancerIngress{ingress}}
}

func nodeNames(nodes []*corev1.Node) []string {
	var names []string
	for _, node := range nodes {
		names = append(names, node.GetMetadata().GetName())
	}
	return names
}

// GetCapabilities implements LoadBalancerProviderService.
func (f *Fake) GetCapabilities(context.Context, *loadbalancerv1.GetCapabilitiesRequest) (*loadbalancerv1.GetCapabilitiesResponse, error) {
	return f.Can, nil
}

// GetLoadBalancer implements LoadBalancerProviderService.
func (f *Fake) GetLoadBalancer(_ context.Context, req *loadbalancerv1.GetLoadBalancerRequest) (*loadbalancerv1.GetLoadBalancerResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.balancers[req.GetUid()]
	if b == nil {
		return nil, errNone(req.GetName())
	}
	return &loadbalancerv1.GetLoadBalancerResponse{Status: f.statusOf(b)}, nil
}

func errNone(service string) error {
	return status.Errorf(codes.NotFound, "service %s has no load balancer", service)
}

// EnsureLoadBalancer implements LoadBalancerProviderService.
func (f *Fake) EnsureLoadBalancer(ctx context.Context, req *loadbalancerv1.EnsureLoadBalancerRequest) (*loadbalancerv1.EnsureLoadBalancerResponse, error) {
	meta := req.GetService().GetMetadata()
	if meta.GetUid() == "" {
		return nil, status.Error(codes.InvalidArgument, "service.metadata.uid is required")
	}
	resp := &loadbalancerv1.EnsureLoadBalancerResponse{}
	pending, err := f.do(ctx, "Ensure", meta.GetName(), func() error {
		b := f.balancers[meta.GetUid()]
		if b == nil {
			f.made++
			b = &Balancer{IP: fmt.Sprintf("203.0.113.%d", (f.made-1)%254+1)}
			f.balancers[meta.GetUid()] = b
		}
		b.Nodes, b.Internal, b.Ports = nodeNames(req.GetNodes()), req.GetInternal(), req.GetService().GetSpec().GetPorts()
		resp.Status = f.statusOf(b)
		return nil
	})
	if err != nil {
		return nil, err
	}
	resp.Pending = pending
	return resp, nil
}

// UpdateLoadBalancer implements LoadBalancerProviderService.
func (f *Fake) UpdateLoadBalancer(ctx context.Context, req *loadbalancerv1.UpdateLoadBalancerRequest) (*loadbalancerv1.UpdateLoadBalancerResponse, error) {
	meta := req.GetService().GetMetadata()
	_, err := f.do(ctx, "Update", meta.GetName(), func() error {
		b := f.balancers[meta.GetUid()]
		if b == nil {
			return errNone(meta.GetName())
		}
		b.Nodes = nodeNames(req.GetNodes())
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &loadbalancerv1.UpdateLoadBalancerResponse{}, nil
}

// DeleteLoadBalancer implements LoadBalancerProviderService.
func (f *Fake) DeleteLoadBalancer(ctx context.Context, req *loadbalancerv1.DeleteLoadBalancerRequest) (*loadbalancerv1.DeleteLoadBalancerResponse, error) {
	meta := req.GetService().GetMetadata()
	pending, err := f.do(ctx, "Delete", meta.GetName(), func() error {
		delete(f.balancers, meta.GetUid())
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &loadbalancerv1.DeleteLoadBalancerResponse{Pending: pending}, nil
}
