package changelog

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry/store"
	"portolan.dev/services/object"
)

// Change converts a record of the store to a change of the API.
func Change(record store.Record) (*registryv1.Change, error) {
	o, err := record.Object()
	if err != nil {
		return nil, err
	}
	return &registryv1.Change{
		Revision: record.Revision, Type: record.Type, Object: object.Wrap(o), Time: timestamppb.New(record.Time), Traceparent: record.Traceparent,
	}, nil
}

// Log implements the log that the relay of services/changes reads.
type Log struct{ Store store.Store }

// Head returns the epoch, the newest revision and the oldest revision that After can start after.
func (l Log) Head(ctx context.Context) (epoch string, head, oldest uint64, err error) {
	h, err := l.Store.Head(ctx)
	return h.Epoch, h.Revision, h.Oldest, err
}

// After returns the changes after a revision.
func (l Log) After(ctx context.Context, revision uint64, limit int) ([]*registryv1.Change, error) {
	records, _ := l.Store.Tail("", revision, limit)
	var err error
	if len(records) == 0 {
		records, _, err = l.Store.Changes(ctx, revision, limit)
	}
	if err != nil {
		return nil, err
	}
	changes := make([]*registryv1.Change, len(records))
	for i, record := range records {
		if changes[i], err = Change(record); err != nil {
			return nil, err
		}
	}
	return changes, nil
}

// Lock runs fn while no other relay on this store runs one.
func (l Log) Lock(ctx context.Context, fn func(ctx context.Context) error) error {
	return l.Store.Lock(ctx, "relay", fn)
}

// NewEpoch gives the log a new epoch.
func (l Log) NewEpoch(ctx context.Context) (string, error) {
	head, err := l.Store.NewEpoch(ctx)
	return head.Epoch, err
}

// Wake returns a channel that is closed when the head may have moved.
func (l Log) Wake() <-chan struct{} { return l.Store.Wake() }
