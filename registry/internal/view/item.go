package view

import (
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry/internal/response"
	"portolan.dev/registry/store"
)

// itemOf decodes a record.
func itemOf(record *store.Record) (*Item, error) {
	o, err := record.Object()
	if err != nil {
		return nil, err
	}
	field, bytes := response.WithRevision(record.Data, record.Revision)
	return &Item{Key: record.Key, Revision: record.Revision, Object: o, Field: field, Bytes: bytes, stored: len(record.Data)}, nil
}

// Change is one change of the log.
type Change struct {
	Revision uint64
	Type     registryv1.ChangeType
	Old      *Item // nil: the object was created, or its old version is not known (see [Decode])
	New      *Item // nil: the object was deleted
	Last     *Item // New, or the last version of a deleted object
}

// Decode decodes a record of the log that the view has already applied. Old is nil because the
// version before is not known.
func Decode(record store.Record) (*Change, error) {
	item, err := itemOf(&record)
	if err != nil {
		return nil, err
	}
	change := &Change{Revision: record.Revision, Type: record.Type, Last: item}
	if record.Type != registryv1.ChangeType_CHANGE_TYPE_DELETE {
		change.New = item
	}
	return change, nil
}
