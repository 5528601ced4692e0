package replicas

import (
	"context"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"

	allocatorv1 "portolan.dev/api/allocator/v1"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
)

// gate is a proxy between a registry and the allocator that can run a function at one step of a
// write.
type gate struct {
	allocatorv1.UnimplementedAllocatorServiceServer
	to allocatorv1.AllocatorServiceClient

	mu    sync.Mutex
	armed *trap
	uids  map[string]string // UIDs by name of the services for which values were requested
}

// trap runs a function once, at a step of one service's write. Confirmations and releases of the
// previous write may arrive after the trap was set, because they wait a moment to be sent together.
// They pass.
type trap struct {
	name   string // of the service
	method string
	after  bool // after the allocator has done the step, and before the registry knows
	spring func()
	sprung chan struct{}
}

// openGate serves a gate and returns it with its address.
func openGate(t *testing.T, to allocatorv1.AllocatorServiceClient) (*gate, string) {
	t.Helper()
	g := &gate{to: to, uids: map[string]string{}}
	host := kittest.Host(t, rpc.TCP(), "")
	server := rpc.NewServer(rpc.ServerOptions{Log: host.Log, Metrics: host.Metrics, Health: host.Health})
	allocatorv1.RegisterAllocatorServiceServer(server, g)
	lis := kittest.Listen(t)
	kittest.Run(t, "gate", func(ctx context.Context) error { return server.Serve(ctx, lis) })
	return g, lis.Addr().String()
}

// arm sets a trap and returns a channel that is closed when it has run.
func (g *gate) arm(name, method string, after bool, spring func()) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.armed = &trap{name, method, after, spring, make(chan struct{})}
	return g.armed.sprung
}

func (g *gate) at(method string, after bool, owners []string) {
	g.mu.Lock()
	trap := g.armed
	if trap == nil || trap.method != method || trap.after != after || !slices.Contains(owners, g.uids[trap.name]) {
		g.mu.Unlock()
		return
	}
	g.armed = nil
	g.mu.Unlock()
	trap.spring()
	close(trap.sprung)
}

// passed forwards one call about some owners to the allocator. The registry's death does not cancel
// the call.
func passed[Q, A any](
	ctx context.Context, g *gate, method string, owners []string, request Q, call func(context.Context, Q, ...grpc.CallOption) (A, error),
) (A, error) {
	g.at(method, false, owners)
	answer, err := call(context.WithoutCancel(ctx), request)
	g.at(method, true, owners)
	return answer, err
}

// know records the names and UIDs of the owners in a request, and returns the UIDs.
func (g *gate) know(r *allocatorv1.AllocateRequest) (uids []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, set := range r.GetSets() {
		g.uids[set.GetOwner().GetName()] = set.GetOwner().GetUid()
		uids = append(uids, set.GetOwner().GetUid())
	}
	return uids
}

func uidsOf(owners []*allocatorv1.OwnerSlots) (uids []string) {
	for _, owner := range owners {
		uids = append(uids, owner.GetOwnerUid())
	}
	return uids
}

func (g *gate) Allocate(ctx context.Context, r *allocatorv1.AllocateRequest) (*allocatorv1.AllocateResponse, error) {
	return passed(ctx, g, "Allocate", g.know(r), r, g.to.Allocate)
}

func (g *gate) Confirm(ctx context.Context, r *allocatorv1.ConfirmRequest) (*allocatorv1.ConfirmResponse, error) {
	return passed(ctx, g, "Confirm", uidsOf(r.GetOwners()), r, g.to.Confirm)
}

func (g *gate) Release(ctx context.Context, r *allocatorv1.ReleaseRequest) (*allocatorv1.ReleaseResponse, error) {
	return passed(ctx, g, "Release", uidsOf(r.GetOwners()), r, g.to.Release)
}

func (g *gate) ListAllocations(ctx context.Context, r *allocatorv1.ListAllocationsRequest) (*allocatorv1.ListAllocationsResponse, error) {
	return g.to.ListAllocations(context.WithoutCancel(ctx), r)
}
