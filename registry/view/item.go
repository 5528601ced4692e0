package view

import (
	"google.golang.org/protobuf/encoding/protowire"

	registryv1 "portolan.dev/proto/portolan/registry/v1"
	"portolan.dev/registry/store"
	"portolan.dev/services/object"
)

// Field numbers that the metadata of every kind has in common.
const (
	fieldMetadata        protowire.Number = 1
	fieldResourceVersion protowire.Number = 5
)

// newItem decodes what the store keeps.
func newItem(key object.Key, data []byte, revision uint64) (*Item, error) {
	o, err := store.Decode(key.Kind, data, revision)
	if err != nil {
		return nil, err
	}
	return &Item{Key: key, Revision: revision, Object: o, Bytes: stamped(data, revision)}, nil
}

// stamped adds the resource_version to an encoded object. Protobuf merges a message field that occurs twice, so a second metadata that holds
// nothing but the version sets it without taking the rest apart.
func stamped(data []byte, revision uint64) []byte {
	var version [16]byte
	inner := protowire.AppendVarint(protowire.AppendTag(version[:0], fieldResourceVersion, protowire.VarintType), revision)
	out := make([]byte, len(data), len(data)+len(inner)+2) // a tag and a length more
	copy(out, data)
	return protowire.AppendBytes(protowire.AppendTag(out, fieldMetadata, protowire.BytesType), inner)
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
