package changelog

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry/store"
	"portolan.dev/services/changes"
	"portolan.dev/services/object"
)

// Change converts a record of the store to a change of the API.
func Change(record store.Record) (*registryv1.Change, error) {
	o, err := record.Object()
	if err != nil {
		return nil, err
	}
	return changeOf(record, o), nil
}

func changeOf(record store.Record, o object.Object) *registryv1.Change {
	return &registryv1.Change{
		Revision: record.Revision, Type: record.Type, Object: object.Wrap(o), Time: timestamppb.New(record.Time), Traceparent: record.Traceparent,
	}
}

// Log implements the log that the relay and the verifier of services/changes read.
type Log struct{ Store store.Store }

// Head returns the epoch, the newest revision and the oldest revision that After can start after.
func (l Log) Head(ctx context.Context) (epoch string, head, oldest uint64, err error) {
	h, err := l.Store.Head(ctx)
	return h.Epoch, h.Revision, h.Oldest, err
}

// After returns the changes after a revision.
func (l Log) After(ctx context.Context, revision uint64, limit int) ([]changes.LoggedChange, error) {
	records, _ := l.Store.Tail("", revision, limit)
	var err error
	if len(records) == 0 {
		records, _, err = l.Store.Changes(ctx, revision, limit)
	}
	if err != nil {
		return nil, err
	}
	logged := make([]changes.LoggedChange, len(records))
	for i, record := range records {
		change, err := loggedChange(record)
		if err != nil {
			return nil, err
		}
		logged[i] = changes.LoggedChange{Change: change, Payload: Encode(record)}
	}
	return logged, nil
}

// loggedChange returns a change. Its object has only its identity, unless it is a pod. Decoding all
// objects would be the largest part of the work of relay and verifier.
func loggedChange(record store.Record) (*registryv1.Change, error) {
	o := object.New(record.Key.Kind)
	if _, isPod := o.(*corev1.Pod); isPod || o == nil { // of an unknown kind, Change returns an error
		return Change(record)
	}
	meta := object.MetaOf(o)
	meta.Namespace, meta.Name, meta.Uid, meta.ResourceVersion = record.Key.Namespace, record.Key.Name, record.UID, record.Revision
	return changeOf(record, o), nil
}

// Installation returns the identity of the installation that the store belongs to.
func (l Log) Installation(ctx context.Context) (string, error) { return l.Store.Installation(ctx) }

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
