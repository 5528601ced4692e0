package changelog

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"portolan.dev/registry/internal/response"
	"portolan.dev/registry/store"
)

// Field numbers of registry.v1.Change and of google.protobuf.Timestamp.
const (
	fieldRevision    protowire.Number = 1
	fieldType        protowire.Number = 2
	fieldObject      protowire.Number = 3
	fieldTime        protowire.Number = 4
	fieldTraceparent protowire.Number = 5

	fieldSeconds protowire.Number = 1
	fieldNanos   protowire.Number = 2
)

// Encode returns the encoding of the change of a record. It contains the object's bytes as they are
// stored, so that every replica, of any version, returns the same bytes for a revision.
func Encode(record store.Record) []byte {
	var small [32]byte
	version := response.AppendVersion(small[:0], record.Revision)
	object := len(record.Data) + len(version)
	kind := response.EnvelopeField(record.Key.Kind)
	envelope := protowire.SizeTag(kind) + protowire.SizeBytes(object)
	const others = 64 // bytes, at most: the revision, the type, the time, and all tags and lengths
	change := make([]byte, 0, envelope+len(record.Traceparent)+others)
	change = appendVarint(change, fieldRevision, record.Revision)
	change = appendVarint(change, fieldType, uint64(record.Type)) // an enum's number
	change = appendLength(change, fieldObject, envelope)
	change = appendLength(change, kind, object)
	change = append(append(change, record.Data...), version...)
	change = appendTime(change, record.Time)
	if record.Traceparent != "" {
		change = protowire.AppendString(protowire.AppendTag(change, fieldTraceparent, protowire.BytesType), record.Traceparent)
	}
	return change
}

// appendTime appends the field with the time of a change.
func appendTime(to []byte, at time.Time) []byte {
	var small [16]byte
	inner := appendVarint(small[:0], fieldSeconds, uint64(at.Unix())) // after 1970
	inner = appendVarint(inner, fieldNanos, uint64(at.Nanosecond()))  // not negative
	return protowire.AppendBytes(protowire.AppendTag(to, fieldTime, protowire.BytesType), inner)
}

// appendLength appends the tag and the length of a field. Its bytes are appended next.
func appendLength(to []byte, field protowire.Number, length int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(to, field, protowire.BytesType), uint64(length))
}

func appendVarint(to []byte, field protowire.Number, value uint64) []byte {
	if value == 0 {
		return to
	}
	return protowire.AppendVarint(protowire.AppendTag(to, field, protowire.VarintType), value)
}
