package view

import (
	registryv1 "portolan.dev/proto/portolan/registry/v1"
	"portolan.dev/registry/store"
	"portolan.dev/registry/wire"
	"portolan.dev/services/object"
)

// newItem decodes what the store keeps.
func newItem(key object.Key, data []byte, revision uint64) (*Item, error) {
	o, err := store.Decode(key.Kind, data, revision)
	if err != nil {
		return nil, err
	}
	field, bytes := wire.Object(data, revision)
	return &Item{Key: key, Revision: revision, Object: o, Field: field, Bytes: bytes}, nil
}

// Change is one change of the log.
type Change struct {
	Revision uint64
	Type     registryv1.ChangeType
	Old      *Item // nil: there was none, or it is not known (see [Decode])
	New      *Item // nil: deleted
	Last     *Item // New, or for deletions the object as it last was
}

// Decode reads a record of the log that the view has passed already. What was there before is not known then: Old is nil.
func Decode(record store.Record) (*Change, error) {
	item, err := newItem(record.Key, record.Data, record.Revision)
	if err != nil {
		return nil, err
	}
	change := &Change{Revision: record.Revision, Type: record.Type, Last: item}
	if record.Type != registryv1.ChangeType_CHANGE_TYPE_DELETE {
		change.New = item
	}
	return change, nil
}
