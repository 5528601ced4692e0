package admission

import (
	"context"
	"errors"
	"os"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/rules"
	"portolan.dev/registry/store"
	"portolan.dev/services/object"
)

// ReserveLeases creates and deletes the Leases that fence the values at hand. It writes to the store
// itself, because a quota of Leases must not keep services from being created, and because the view
// does not follow the store any more when a Lease is deleted at the end.
type ReserveLeases struct{ Store store.Store }

// CreateLease stores a new Lease in the namespace default and returns its epoch.
func (l ReserveLeases) CreateLease(ctx context.Context, name string) (uint64, error) {
	head, err := l.Store.Head(ctx)
	if err != nil {
		return 0, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	epoch := head.Revision + 1 // as for any new Lease
	lease := &corev1.Lease{
		Metadata: &corev1.ObjectMeta{
			Namespace: object.DefaultNamespace, Name: name, Uid: NewUID(), Generation: 1, CreationTimestamp: timestamppb.New(time.Now().Truncate(time.Millisecond)),
		},
		Spec: &corev1.LeaseSpec{HolderIdentity: "registry on " + host, LeaseDurationSeconds: reserveLeaseSeconds, Epoch: epoch},
	}
	rules.Of(lease).Default(lease)
	data, err := store.Encode(lease)
	if err != nil {
		return 0, err
	}
	_, err = l.Store.Submit(ctx, store.Op{Action: store.Create, Key: object.KeyOf(lease), UID: lease.GetMetadata().GetUid(), Data: data, Epoch: epoch})
	return epoch, err
}

// reserveLeaseSeconds is the time after which the allocator may end the reserve of a silent holder. The
// allocator has a setting for it; the Lease has the number only for readers.
const reserveLeaseSeconds = 30

// DeleteLease deletes a Lease in the namespace default. It returns nil if the Lease does not exist.
func (l ReserveLeases) DeleteLease(ctx context.Context, name string) error {
	_, err := l.Store.Submit(ctx, store.Op{Action: store.Delete, Key: object.Key{Kind: "Lease", Namespace: object.DefaultNamespace, Name: name}})
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}
