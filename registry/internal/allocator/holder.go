package allocator

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"

	"portolan.dev/registry/store"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// Leases creates and deletes Leases in this registry's own store, in the namespace default.
type Leases interface {
	// CreateLease stores a new Lease and returns its fencing epoch.
	CreateLease(ctx context.Context, name string) (epoch uint64, err error)
	// DeleteLease deletes a Lease. It returns nil if the Lease does not exist.
	DeleteLease(ctx context.Context, name string) error
}

// holder is the holder of one reserve: a Lease that fences the commits of all objects with newly
// allocated values.
type holder struct {
	name  string // of the Lease
	fence store.Fence
}

// newHolder stores a new Lease and returns its holder. The name of the Lease is random, so that a deleted
// Lease never comes back for another holder.
func newHolder(ctx context.Context, leases Leases) (*holder, error) {
	name := spec.ReserveLeasePrefix + strings.ToLower(rand.Text())
	epoch, err := leases.CreateLease(ctx, name)
	if err != nil {
		return nil, err
	}
	lease := object.Key{Kind: "Lease", Namespace: object.DefaultNamespace, Name: name}
	return &holder{name: name, fence: store.Fence{Lease: lease, Epoch: epoch}}, nil
}

// refuses reports whether err is a commit's refusal because the Lease of the holder is gone.
func (h *holder) refuses(err error) bool {
	fenced, ok := errors.AsType[*store.Fenced](err)
	return ok && h != nil && fenced.Fence == h.fence
}
