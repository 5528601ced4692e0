package nodestatus

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

// fakeRegistry has at most one Node.
type fakeRegistry struct {
	registryv1.NodeServiceClient
	node    *corev1.Node
	writes  int
	foreign string // address that is refused
}

func (r *fakeRegistry) GetNode(context.Context, *registryv1.GetNodeRequest, ...grpc.CallOption) (*registryv1.GetNodeResponse, error) {
	if r.node == nil {
		return nil, status.Error(codes.NotFound, "no node")
	}
	return &registryv1.GetNodeResponse{Node: r.node.CloneVT()}, nil
}

func (r *fakeRegistry) CreateNode(_ context.Context, req *registryv1.CreateNodeRequest, _ ...grpc.CallOption) (*registryv1.CreateNodeResponse, error) {
	r.node = req.GetNode().CloneVT()
	return &registryv1.CreateNodeResponse{Node: req.GetNode()}, nil
}

func (r *fakeRegistry) UpdateNodeStatus(_ context.Context, req *registryv1.UpdateNodeStatusRequest, _ ...grpc.CallOption) (*registryv1.UpdateNodeStatusResponse, error) {
	for i, address := range req.GetNode().GetStatus().GetAddresses() {
		if address.GetAddress() == r.foreign {
			var found apierr.Violations
			found.Add(fmt.Sprintf("status.addresses[%d].address", i), apierr.ReasonForbidden, "forbidden")
			return nil, apierr.Invalid("Node", "here", found)
		}
	}
	r.node.Status = req.GetNode().GetStatus().CloneVT()
	r.writes++
	return &registryv1.UpdateNodeStatusResponse{Node: req.GetNode()}, nil
}

// setNotReady marks the node as lost, as the endpoint controller does if heartbeats are missing.
func (r *fakeRegistry) setNotReady() {
	object.Condition(r.node.GetStatus().GetConditions(), object.ConditionReady).Status = corev1.ConditionStatus_CONDITION_STATUS_FALSE
}

// TestReadyIsSetWithinLimits checks that a running agent sets its Node ready again only while it
// can publish heartbeats, and not more often than at every readyInterval.
func TestReadyIsSetWithinLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry, connected := &fakeRegistry{}, true
		r := NewRegistration(RegistrationOptions{
			Name: "here", Labels: map[string]string{"zone": "a"}, ProxyMode: "nftables", Listening: &net.TCPAddr{IP: net.IPv6unspecified, Port: 7404},
			Connected: func() bool { return connected }, Client: registry, Log: slog.New(slog.DiscardHandler),
		})
		r.SetAddresses([]netip.Addr{netip.MustParseAddr("192.0.2.1")})
		register := func(what string, ready bool, writes int) {
			t.Helper()
			if err := r.register(t.Context()); err != nil {
				t.Fatal(err)
			}
			if Ready(registry.node) != ready || registry.writes != writes {
				t.Errorf("%s: ready %t after %d writes, want %t after %d", what, Ready(registry.node), registry.writes, ready, writes)
			}
		}
		register("at the start", true, 1)
		if s := registry.node.GetStatus(); s.GetAgentAddress() != "192.0.2.1:7404" || s.GetProxyMode() != "nftables" || registry.node.GetMetadata().GetLabels()["zone"] != "a" {
			t.Errorf("node %v", registry.node)
		}
		register("without a change", true, 1)
		registry.setNotReady()
		register("too early", false, 1)
		connected = false
		time.Sleep(readyInterval)
		register("without heartbeats", false, 1)
		connected = true
		register("with heartbeats", true, 2)
		registry.node = nil
		register("after the Node was deleted", true, 3)
	})
}

// TestRunTriesAgain checks that a registration registers when it is woken, and again after an error.
func TestRunTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := &absentOnce{}
		r := NewRegistration(RegistrationOptions{
			Name: "here", Listening: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1},
			Connected: func() bool { return true }, Client: registry, Log: slog.New(slog.DiscardHandler),
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		synctest.Wait()
		if registry.node != nil {
			t.Error("registered before it was woken")
		}
		r.Wake()
		time.Sleep(time.Minute)
		synctest.Wait()
		if registry.node == nil || registry.calls != 2 {
			t.Errorf("node %v after %d calls", registry.node, registry.calls)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// absentOnce is a registry that is unavailable for the first call.
type absentOnce struct {
	fakeRegistry
	calls int
}

func (r *absentOnce) GetNode(ctx context.Context, req *registryv1.GetNodeRequest, opts ...grpc.CallOption) (*registryv1.GetNodeResponse, error) {
	if r.calls++; r.calls == 1 {
		return nil, status.Error(codes.Unavailable, "away")
	}
	return r.fakeRegistry.GetNode(ctx, req, opts...)
}

// TestForeignAddressIsLeftOut checks that a node with an address that the registry refuses is ready
// with its other addresses, and that nothing is written as long as nothing changes.
func TestForeignAddressIsLeftOut(t *testing.T) {
	registry := &fakeRegistry{foreign: "172.17.0.1"}
	r := NewRegistration(RegistrationOptions{
		Name: "here", Listening: &net.TCPAddr{IP: net.IPv6unspecified, Port: 7404},
		Connected: func() bool { return true }, Client: registry, Log: slog.New(slog.DiscardHandler),
	})
	r.SetAddresses([]netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("172.17.0.1"), netip.MustParseAddr("192.0.2.2")})
	for range 3 {
		if err := r.register(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, address := range registry.node.GetStatus().GetAddresses() {
		got = append(got, address.GetAddress())
	}
	if want := []string{"192.0.2.1", "192.0.2.2", "here"}; !slices.Equal(got, want) || !Ready(registry.node) || registry.writes != 1 {
		t.Errorf("addresses %q, ready %t, %d writes; want %q, ready, 1 write", got, Ready(registry.node), registry.writes, want)
	}
}
