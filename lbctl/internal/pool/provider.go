package pool

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	loadbalancerv1 "portolan.dev/api/loadbalancer/v1"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// Class is the class of services that name the built-in provider. It also serves those without a
// class.
const Class = "portolan.dev/pool"

// Services knows the services that share addresses.
type Services interface {
	// Sharers returns the services that share addresses under an owner.
	Sharers(owner string) []*corev1.Service
}

// Config is the configuration of a [Provider].
type Config struct {
	Allocator allocatorv1.AllocatorServiceClient
	Services  Services
	Rules     Rules
}

// Provider is the built-in provider. It is safe for concurrent use.
type Provider struct {
	loadbalancerv1.UnimplementedLoadBalancerProviderServiceServer

	cfg Config

	// mu is held while the addresses of a share are claimed or released, so that two services do not
	// become its members without knowing of each other.
	mu       sync.Mutex
	admitted map[string]map[string]*corev1.Service // guarded by mu: members of shares, by owner and uid
	left     map[string]time.Time                  // guarded by mu: services whose balancer was deleted lately
}

var _ loadbalancerv1.LoadBalancerProviderServiceServer = (*Provider)(nil)

// New returns a provider.
func New(cfg Config) *Provider {
	return &Provider{cfg: cfg, admitted: map[string]map[string]*corev1.Service{}, left: map[string]time.Time{}}
}

// GetCapabilities implements LoadBalancerProviderService.
func (p *Provider) GetCapabilities(context.Context, *loadbalancerv1.GetCapabilitiesRequest) (*loadbalancerv1.GetCapabilitiesResponse, error) {
	return &loadbalancerv1.GetCapabilitiesResponse{
		Name: "pool", LoadBalancerClass: Class,
		Protocols:      []corev1.Protocol{corev1.Protocol_PROTOCOL_TCP, corev1.Protocol_PROTOCOL_UDP},
		MixedProtocols: true, LoadBalancerIp: true, SourceRanges: true, Families: slices.Clone(families),
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
		p.mu.Lock()
		defer p.mu.Unlock()
		members = p.members(owner, svc.GetMetadata().GetUid())
		if err := checkShare(svc, members); err != nil {
			return nil, err
		}
		if err := followMembers(svc, wishes, members); err != nil {
			return nil, err
		}
	}
	granted, err := p.claim(ctx, svc, owner, wishes)
	if err != nil {
		return nil, err
	}
	out := &corev1.LoadBalancerStatus{}
	for _, g := range granted {
		out.Ingress = append(out.Ingress, &corev1.LoadBalancerIngress{Ip: g.value, IpMode: corev1.IPMode_IP_MODE_VIP})
	}
	if owner.Kind == spec.KindAddressShare {
		p.admit(owner, svc, out)
	}
	if sameAddresses(out, svc.GetStatus().GetLoadBalancer()) {
		if err := p.settle(ctx, svc, owner, granted, len(members) == 0); err != nil {
			return nil, err
		}
	}
	return &loadbalancerv1.EnsureLoadBalancerResponse{Status: out}, nil
}

// sameAddresses reports whether two states have the same addresses in the same order.
func sameAddresses(a, b *corev1.LoadBalancerStatus) bool {
	return slices.EqualFunc(a.GetIngress(), b.GetIngress(), func(x, y *corev1.LoadBalancerIngress) bool { return x.GetIp() == y.GetIp() })
}

// settle confirms the addresses that the service's status has, and releases all others: those that
// they replace, and those that the service had before it shared its addresses. If it is not alone,
// other members of its share may have more addresses than it.
func (p *Provider) settle(ctx context.Context, svc *corev1.Service, owner spec.AddressOwner, granted []wish, alone bool) error {
	slots := make([]string, len(granted))
	for i, g := range granted {
		slots[i] = g.slot
	}
	if _, err := p.cfg.Allocator.Confirm(ctx, &allocatorv1.ConfirmRequest{Owners: []*allocatorv1.OwnerSlots{{OwnerUid: owner.UID, Slots: slots}}}); err != nil {
		return err
	}
	var release []*allocatorv1.OwnerSlots
	if alone {
		surplus := slices.DeleteFunc(allSlots(), func(slot string) bool { return slices.Contains(slots, slot) })
		release = append(release, &allocatorv1.OwnerSlots{OwnerUid: owner.UID, Slots: surplus})
	}
	if uid := svc.GetMetadata().GetUid(); uid != owner.UID {
		release = append(release, &allocatorv1.OwnerSlots{OwnerUid: uid, Slots: allSlots()})
	}
	_, err := p.cfg.Allocator.Release(ctx, &allocatorv1.ReleaseRequest{Owners: release})
	return err
}

// GetLoadBalancer implements LoadBalancerProviderService.
func (p *Provider) GetLoadBalancer(ctx context.Context, req *loadbalancerv1.GetLoadBalancerRequest) (*loadbalancerv1.GetLoadBalancerResponse, error) {
	owner := req.GetUid()
	for _, shared := range p.sharesOf(req.GetUid()) {
		owner = shared
	}
	resp, err := p.cfg.Allocator.ListAllocations(ctx, &allocatorv1.ListAllocationsRequest{OwnerUid: owner})
	if err != nil {
		return nil, err
	}
	out := &corev1.LoadBalancerStatus{}
	for _, a := range resp.GetAllocations() {
		if strings.HasPrefix(a.GetSlot(), spec.BalancerSlots) {
			out.Ingress = append(out.Ingress, &corev1.LoadBalancerIngress{Ip: a.GetValue(), IpMode: corev1.IPMode_IP_MODE_VIP})
		}
	}
	if len(out.Ingress) == 0 {
		return nil, status.Errorf(codes.NotFound, "service %s/%s (%s) has no load balancer", req.GetNamespace(), req.GetName(), req.GetUid())
	}
	return &loadbalancerv1.GetLoadBalancerResponse{Status: out}, nil
}

// sharesOf returns the owners of the shares that this process has admitted a service to.
func (p *Provider) sharesOf(uid string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var owners []string
	for owner, members := range p.admitted {
		if members[uid] != nil {
			owners = append(owners, owner)
		}
	}
	return owners
}

// UpdateLoadBalancer implements LoadBalancerProviderService. Nodes forward what arrives for the
// addresses, so their number does not matter.
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
	p.mu.Lock()
	defer p.mu.Unlock()
	release := []*allocatorv1.OwnerSlots{{OwnerUid: uid, Slots: allSlots()}}
	if owner.Kind == spec.KindAddressShare && len(p.members(owner, uid)) == 0 {
		release = append(release, &allocatorv1.OwnerSlots{OwnerUid: owner.UID, Slots: allSlots()})
	}
	if _, err := p.cfg.Allocator.Release(ctx, &allocatorv1.ReleaseRequest{Owners: release}); err != nil {
		return nil, err
	}
	p.leaveForGood(uid)
	return &loadbalancerv1.DeleteLoadBalancerResponse{}, nil
}
