package api_test

import (
	"context"
	"net/netip"
	"testing"

	"google.golang.org/grpc"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"

	"portolan.dev/allocator/allocatortest"
	"portolan.dev/allocator/internal/api"
	"portolan.dev/allocator/pool"
)

// node is the only node that a registry has. The zero value is no node.
type node struct {
	name    string
	address netip.Addr
}

// NodeIn implements api.Nodes.
func (n node) NodeIn(space pool.Space) (string, netip.Addr) {
	if n.name == "" || !space.Prefix().Contains(n.address) {
		return "", netip.Addr{}
	}
	return n.name, n.address
}

// adopted reports that the values of all objects are known.
type adopted struct{}

// Adopted implements api.Values.
func (adopted) Adopted(context.Context) (string, error) { return "epoch-1", nil }

// HasUnknown implements api.Values.
func (adopted) HasUnknown(pool.Space) bool { return false }

// AdoptWithin implements api.Values.
func (adopted) AdoptWithin(context.Context, pool.Space) error { return nil }

// everyLease is a registry with all Leases except one.
type everyLease struct{}

// Get implements api.Leases.
func (everyLease) Get(_ context.Context, key object.Key) (object.Object, error) {
	if key.Name == allocatortest.ClosedHolder {
		return nil, nil
	}
	return &corev1.Lease{Metadata: &corev1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}, nil
}

// open returns a client of a new allocator without pools, which knows the given nodes.
func open(t *testing.T, nodes api.Nodes) allocatorv1.AllocatorServiceClient {
	t.Helper()
	e := newEngine(t)
	conn := kittest.Conn(t, func(s grpc.ServiceRegistrar) {
		allocatorv1.RegisterAllocatorServiceServer(s, api.New(e, adopted{}, everyLease{}, nodes))
	})
	return allocatorv1.NewAllocatorServiceClient(conn)
}

func TestConformance(t *testing.T) {
	allocatortest.Run(t, func(t *testing.T) allocatorv1.AllocatorServiceClient { return open(t, node{}) })
}
