package pool

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	loadbalancerv1 "portolan.dev/api/loadbalancer/v1"
	"portolan.dev/services/balancer"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// Kind has the properties in which the built-in providers differ.
type Kind struct {
	Class, Name string
	// Mode is the mode of the addresses: VIP if nodes forward their packets.
	Mode          corev1.IPMode
	Protocols     []corev1.Protocol
	ProxyProtocol bool
}

var (
	// Nodes is the provider of addresses at which nodes forward. It also serves services without a class.
	Nodes = Kind{
		Class: balancer.ClassPool, Name: "pool", Mode: corev1.IPMode_IP_MODE_VIP,
		Protocols: []corev1.Protocol{corev1.Protocol_PROTOCOL_TCP, corev1.Protocol_PROTOCOL_UDP},
	}
	// Edges is the provider of addresses at which edges listen.
	Edges = Kind{
		Class: balancer.ClassEdge, Name: "edge", Mode: corev1.IPMode_IP_MODE_PROXY,
		Protocols: []corev1.Protocol{corev1.Protocol_PROTOCOL_TCP}, ProxyProtocol: true,
	}
)

// Config is the configuration of a [Provider].
type Config struct {
	Kind      Kind
	Allocator allocatorv1.AllocatorServiceClient
	// Shares are common to all built-in providers, because a share is one owner in the allocator even if its
	// services have different classes.
	Shares *Shares
	Rules  Rules
}

// Provider is a built-in provider. It is safe for concurrent use.
type Provider struct {
	loadbalancerv1.UnimplementedLoadBalancerProviderServiceServer

	cfg Config
}

var _ loadbalancerv1.LoadBalancerProviderServiceServer = (*Provider)(nil)

// New returns a provider.
func New(cfg Config) *Provider { return &Provider{cfg: cfg} }

// GetCapabilities implements LoadBalancerProviderService.
func (p *Provider) GetCapabilities(context.Context, *loadbalancerv1.GetCapabilitiesRequest) (*loadbalancerv1.GetCapabilitiesResponse, error) {
	kind := p.cfg.Kind
	return &loadbalancerv1.GetCapabilitiesResponse{
		Name: kind.Name, LoadBalancerClass: kind.Class, Protocols: slices.Clone(kind.Protocols), MixedProtocols: len(kind.Protocols) > 1,
		LoadBalancerIp: true, SourceRanges: true, ProxyProtocol: kind.ProxyProtocol, Families: slices.Clone(families),
		Internal: len(p.cfg.Rules.Internal) > 0,
	}, nil
}

// EnsureLoadBalancer implements LoadBalancerProviderService.
func (p *Provider) EnsureLoadBalancer(ctx context.Context, req *loadbalancerv1.EnsureLoadBalancerRequest) (*loadbalancerv1.EnsureLoadBalancerResponse, error) {
	svc := req.GetService()
	if svc.GetMetadata().GetUid() == "" {
		return nil, status.Error(codes.InvalidArgument, "service.metadata.uid is required: a load balancer belongs to one service")
	}
	wishes, err := wishesOf(svc)
	if err != nil {
		return nil, err
	}
	owner := spec.OwnerOfAddresses(svc)
	var members []*corev1.Service
	if owner.Kind == spec.KindAddressShare {
		p.cfg.Shares.mu.Lock()
		defer p.cfg.Shares.mu.Unlock()
		members = p.cfg.Shares.members(owner.UID, svc.GetMetadata().GetUid())
		if err := checkShare(svc, members); err != nil {
			return nil, err
		}
		if err := follow(svc, wishes, members); err != nil {
			return nil, err
		}
	}
	granted, err := p.claim(ctx, svc, owner, wishes, len(members) > 0)
	if err != nil {
		return nil, err
	}
	out := &corev1.LoadBalancerStatus{}
	for _, g := range granted {
		out.Ingress = append(out.Ingress, &corev1.LoadBalancerIngress{Ip: g.value, IpMode: p.cfg.Kind.Mode})
	}
	var others []*corev1.Service
	if owner.Kind == spec.KindAddressShare {
		p.cfg.Shares.admit(owner, svc, out)
		others = append(members, p.cfg.Shares.statuses(owner.UID, svc.GetMetadata().GetUid())...)
	} else {
		p.cfg.Shares.leaveAny(svc.GetMetadata().GetUid())
	}
	if sameAddresses(out, svc.GetStatus().GetLoadBalancer()) {
		if err := p.settle(ctx, svc, owner, granted, others); err != nil {
			return nil, err
		}
	}
	return &loadbalancerv1.EnsureLoadBalancerResponse{Status: out}, nil
}

// sameAddresses reports whether two states have the same addresses in the same order.
func sameAddresses(a, b *corev1.LoadBalancerStatus) bool {
	return slices.EqualFunc(a.GetIngress(), b.GetIngress(), func(x, y *corev1.LoadBalancerIngress) bool { return x.GetIp() == y.GetIp() })
}

// GetLoadBalancer implements LoadBalancerProviderService.
func (p *Provider) GetLoadBalancer(ctx context.Context, req *loadbalancerv1.GetLoadBalancerRequest) (*loadbalancerv1.GetLoadBalancerResponse, error) {
	owner := cmp.Or(p.cfg.Shares.of(req.GetUid()), req.GetUid())
	resp, err := p.cfg.Allocator.ListAllocations(ctx, &allocatorv1.ListAllocationsRequest{OwnerUid: owner})
	if err != nil {
		return nil, err
	}
	out := &corev1.LoadBalancerStatus{}
	for _, a := range resp.GetAllocations() {
		if strings.HasPrefix(a.GetSlot(), spec.BalancerSlots) {
			out.Ingress = append(out.Ingress, &corev1.LoadBalancerIngress{Ip: a.GetValue(), IpMode: p.cfg.Kind.Mode})
		}
	}
	if len(out.Ingress) == 0 {
		return nil, status.Errorf(codes.NotFound, "service %s/%s (%s) has no load balancer", req.GetNamespace(), req.GetName(), req.GetUid())
	}
	return &loadbalancerv1.GetLoadBalancerResponse{Status: out}, nil
}

// UpdateLoadBalancer implements LoadBalancerProviderService. An address belongs to no node, so a change of the
// nodes changes nothing.
func (p *Provider) UpdateLoadBalancer(ctx context.Context, req *loadbalancerv1.UpdateLoadBalancerRequest) (*loadbalancerv1.UpdateLoadBalancerResponse, error) {
	name := object.NameOf(req.GetService())
	if _, err := p.GetLoadBalancer(ctx, &loadbalancerv1.GetLoadBalancerRequest{
		Namespace: name.Namespace, Name: name.Name, Uid: req.GetService().GetMetadata().GetUid(),
	}); err != nil {
		return nil, err
	}
	return &loadbalancerv1.UpdateLoadBalancerResponse{}, nil
}

// DeleteLoadBalancer implements LoadBalancerProviderService.
func (p *Provider) DeleteLoadBalancer(ctx context.Context, req *loadbalancerv1.DeleteLoadBalancerRequest) (*loadbalancerv1.DeleteLoadBalancerResponse, error) {
	svc := req.GetService()
	uid, owner := svc.GetMetadata().GetUid(), spec.OwnerOfAddresses(svc)
	p.cfg.Shares.mu.Lock()
	defer p.cfg.Shares.mu.Unlock()
	release := []*allocatorv1.OwnerSlots{{OwnerUid: uid, Slots: allSlots()}}
	if owner.Kind == spec.KindAddressShare && len(p.cfg.Shares.members(owner.UID, uid)) == 0 {
		release = append(release, &allocatorv1.OwnerSlots{OwnerUid: owner.UID, Slots: allSlots()})
	}
	if _, err := p.cfg.Allocator.Release(ctx, &allocatorv1.ReleaseRequest{Owners: release}); err != nil {
		return nil, err
	}
	p.cfg.Shares.leaveForGood(uid)
	return &loadbalancerv1.DeleteLoadBalancerResponse{}, nil
}
