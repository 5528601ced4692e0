package explain

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/kittest"
)

// fakeAllocator is a fake allocator with the owner of each value, and a registry with services.
type fakeAllocator struct {
	allocatorv1.UnimplementedAllocatorServiceServer
	registryv1.UnimplementedServiceServiceServer

	owners   map[string][]string // values by UID
	pools    []*allocatorv1.Pool
	services []*corev1.Service
}

func (b *fakeAllocator) ListAllocations(_ context.Context, r *allocatorv1.ListAllocationsRequest) (*allocatorv1.ListAllocationsResponse, error) {
	answer := &allocatorv1.ListAllocationsResponse{}
	for _, value := range b.owners[r.GetOwnerUid()] {
		answer.Allocations = append(answer.Allocations, &allocatorv1.Allocation{Value: value, Pool: "p"})
	}
	return answer, nil
}

func (b *fakeAllocator) ListPools(context.Context, *allocatorv1.ListPoolsRequest) (*allocatorv1.ListPoolsResponse, error) {
	return &allocatorv1.ListPoolsResponse{Pools: b.pools}, nil
}

func (b *fakeAllocator) ListServices(context.Context, *registryv1.ListServicesRequest) (*registryv1.ListServicesResponse, error) {
	return &registryv1.ListServicesResponse{Services: b.services}, nil
}

func withValues(name, ip string, nodePort int32) *corev1.Service {
	return &corev1.Service{
		Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name, Uid: "uid-" + name},
		Spec: &corev1.ServiceSpec{
			Type: corev1.ServiceType_SERVICE_TYPE_NODE_PORT, ClusterIp: ip, ClusterIps: []string{ip}, Ports: []*corev1.ServicePort{{NodePort: nodePort}},
		},
	}
}

// TestDuplicatesAreExplainedOnBothServices checks that the explanation of either service names the
// service to recreate.
func TestDuplicatesAreExplainedOnBothServices(t *testing.T) {
	b := &fakeAllocator{
		owners: map[string][]string{"uid-old": {"10.96.0.1", "30001"}, "uid-young": {"30002"}, "uid-alone": {"10.96.0.9", "30009"}},
		services: []*corev1.Service{
			withValues("old", "10.96.0.1", 30001), withValues("young", "10.96.0.1", 30002), withValues("alone", "10.96.0.9", 30009),
		},
	}
	conn := kittest.Conn(t, func(s grpc.ServiceRegistrar) {
		allocatorv1.RegisterAllocatorServiceServer(s, b)
		registryv1.RegisterServiceServiceServer(s, b)
	})
	for i, other := range []string{"young", "old"} {
		c := &explainer{Daemons: Daemons{Registry: conn, Allocator: conn}, service: b.services[i]}
		step := c.addresses(t.Context())
		if said := "10.96.0.1 is also in service default/" + other; step.State != Broken || !strings.Contains(strings.Join(step.Lines, "\n"), said) {
			t.Errorf("%s: %s %q, want broken with %q", c.service.GetMetadata().GetName(), step.State, step.Lines, said)
		}
		if remedy := "portolan delete service young -n default"; !strings.Contains(step.Remedy, remedy) {
			t.Errorf("%s: remedy %q, want %q", c.service.GetMetadata().GetName(), step.Remedy, remedy)
		}
	}
	c := &explainer{Daemons: Daemons{Registry: conn, Allocator: conn}, service: b.services[2]}
	if step := c.addresses(t.Context()); step.State != OK {
		t.Errorf("a service of its own values is %s: %q", step.State, step.Lines)
	}
}

// TestANumberOfTwoProtocolsIsNoDuplicate has two services with the same node port for different
// protocols, in a pool in which each protocol has its own numbers, and a third one that has the port
// of one of them.
func TestANumberOfTwoProtocolsIsNoDuplicate(t *testing.T) {
	withProtocol := func(name, ip string, protocol corev1.Protocol) *corev1.Service {
		svc := withValues(name, ip, 30053)
		svc.Spec.Ports[0].Protocol = protocol
		return svc
	}
	const tcp, udp = corev1.Protocol_PROTOCOL_TCP, corev1.Protocol_PROTOCOL_UDP
	b := &fakeAllocator{
		pools:    []*allocatorv1.Pool{{Name: "shared", Range: "31000-31099"}, {Name: "p", Range: "30000-30099", PerProtocol: true}},
		owners:   map[string][]string{"uid-web": {"10.96.0.1", "30053/TCP"}, "uid-dns": {"10.96.0.2", "30053/UDP"}, "uid-late": {"10.96.0.3"}},
		services: []*corev1.Service{withProtocol("web", "10.96.0.1", tcp), withProtocol("dns", "10.96.0.2", udp)},
	}
	conn := kittest.Conn(t, func(s grpc.ServiceRegistrar) {
		allocatorv1.RegisterAllocatorServiceServer(s, b)
		registryv1.RegisterServiceServiceServer(s, b)
	})
	explain := func(svc *corev1.Service) Step {
		return (&explainer{Daemons: Daemons{Registry: conn, Allocator: conn}, service: svc}).addresses(t.Context())
	}
	for _, svc := range b.services {
		if step := explain(svc); step.State != OK {
			t.Errorf("%s is %s: %q", svc.GetMetadata().GetName(), step.State, step.Lines)
		}
	}
	b.services = append(b.services, withProtocol("late", "10.96.0.3", udp))
	step := explain(b.services[2])
	if text := strings.Join(step.Lines, "\n"); step.State != Broken || !strings.Contains(text, "30053/UDP is also in service default/dns") || strings.Contains(text, "default/web") {
		t.Errorf("late is %s: %q", step.State, step.Lines)
	}
}
