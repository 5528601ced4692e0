package response

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	corev1 "portolan.dev/api/core/v1"
)

// Field numbers that the responses of all kinds have in common.
const (
	fieldObject   protowire.Number = 1 // CreateXResponse and others: the object; ListXResponse: the objects
	fieldWarnings protowire.Number = 2 // CreateXResponse, UpdateXResponse

	fieldPageToken    protowire.Number = 2 // ListXResponse
	fieldListRevision protowire.Number = 3
	fieldRemaining    protowire.Number = 4

	fieldChanges       protowire.Number = 1 // WatchXResponse
	fieldWatchRevision protowire.Number = 2
	fieldSynced        protowire.Number = 3

	fieldChangeType     protowire.Number = 1 // XChange
	fieldChangeObject   protowire.Number = 2
	fieldChangeRevision protowire.Number = 3

	fieldSnapshotEpoch    protowire.Number = 1 // SnapshotResponse
	fieldSnapshotRevision protowire.Number = 2
	fieldSnapshotObjects  protowire.Number = 3
	fieldSnapshotComplete protowire.Number = 4
	fieldSnapshotTotal    protowire.Number = 5

	fieldMetadata        protowire.Number = 1 // every kind
	fieldResourceVersion protowire.Number = 5 // core.v1.ObjectMeta
)

// Message is a response in parts, which are sent one after the other. The codec of services/kit/rpc
// sends it like a generated message. Parts may be shared between messages and are not copied before
// they are sent.
type Message struct {
	parts [][]byte
	own   []byte // parts that are not shared

	// kind and field describe the last envelope, because objects of a kind come together.
	kind  string
	field protowire.Number

	// written and revision are the arguments of Describe.
	written  *corev1.ObjectMeta
	revision uint64
}

// keptParts is the largest number of parts for which Reset keeps the memory: the parts of one batch of a
// snapshot. There are many streams, and most of their messages are small.
const keptParts = 512

// Reset empties the message for the next one of a stream. It keeps the memory unless there is much
// of it. The codec has copied the parts that were sent.
func (m *Message) Reset() {
	if cap(m.parts) > keptParts {
		*m = Message{}
		return
	}
	clear(m.parts) // allows the shared parts to be freed
	m.parts, m.own = m.parts[:0], m.own[:0]
	m.written, m.revision = nil, 0
}

// SizeVT returns the length of the encoding.
func (m *Message) SizeVT() int {
	size := 0
	for _, part := range m.parts {
		size += len(part)
	}
	return size
}

// MarshalToSizedBufferVT writes the encoding to the end of buf and returns its length.
func (m *Message) MarshalToSizedBufferVT(buf []byte) (int, error) {
	size := m.SizeVT()
	if size > len(buf) {
		return 0, fmt.Errorf("buffer of %d bytes for a message of %d", len(buf), size)
	}
	at := len(buf) - size
	for _, part := range m.parts {
		at += copy(buf[at:], part)
	}
	return size, nil
}

// UnmarshalVT returns an error. The codec requires the method, but responses are never received
// here.
func (m *Message) UnmarshalVT([]byte) error {
	return errors.New("an answer in parts cannot be decoded")
}

// Part returns a part of the encoding, which is shared.
func (m *Message) Part(i int) []byte { return m.parts[i] }

// AppendVersion appends a metadata field that has only the resource_version. Protobuf merges a
// message field that occurs twice, so an encoded object with this field at its end has that version,
// without having been decoded.
func AppendVersion(to []byte, revision uint64) []byte {
	var small [16]byte
	inner := protowire.AppendVarint(protowire.AppendTag(small[:0], fieldResourceVersion, protowire.VarintType), revision)
	return protowire.AppendBytes(protowire.AppendTag(to, fieldMetadata, protowire.BytesType), inner)
}

// WithRevision sets the resource_version of an encoded object that has none. It returns the object,
// and the same object as field 1 of a response.
func WithRevision(data []byte, revision uint64) (field, object []byte) {
	var small [32]byte
	version := AppendVersion(small[:0], revision)
	size := len(data) + len(version)
	field = make([]byte, 0, protowire.SizeTag(fieldObject)+protowire.SizeBytes(size))
	field = protowire.AppendVarint(protowire.AppendTag(field, fieldObject, protowire.BytesType), uint64(size))
	before := len(field)
	field = append(append(field, data...), version...)
	return field, field[before:]
}

// AddField appends an object as the field that [WithRevision] returned.
func (m *Message) AddField(field []byte) { m.parts = append(m.parts, field) }

// AddObject appends an encoded object.
func (m *Message) AddObject(encoded []byte) {
	begin := len(m.own)
	m.own = appendHeader(m.own, fieldObject, len(encoded))
	m.parts = append(m.parts, m.own[begin:], encoded)
}

// AddWarnings appends the warnings of a Create or an Update.
func (m *Message) AddWarnings(warnings []string) {
	for _, warning := range warnings {
		m.parts = append(m.parts, protowire.AppendString(protowire.AppendTag(nil, fieldWarnings, protowire.BytesType), warning))
	}
}

// EndList appends the fields that follow the objects of a page.
func (m *Message) EndList(pageToken string, revision, remaining uint64) {
	var tail []byte
	if pageToken != "" {
		tail = protowire.AppendString(protowire.AppendTag(tail, fieldPageToken, protowire.BytesType), pageToken)
	}
	tail = appendUint(tail, fieldListRevision, revision)
	m.parts = append(m.parts, appendUint(tail, fieldRemaining, remaining))
}

// Describe sets the metadata of the object in the response of a write, and the revision of the
// write, which is 0 if nothing was written. Neither is sent.
func (m *Message) Describe(meta *corev1.ObjectMeta, revision uint64) {
	m.written, m.revision = meta, revision
}

// Written returns the arguments of Describe, for the audit log.
func (m *Message) Written() (meta *corev1.ObjectMeta, revision uint64) { return m.written, m.revision }

// AddChanges appends changes that were encoded by [Change].
func (m *Message) AddChanges(encoded []byte) { m.parts = append(m.parts, encoded) }

// EndWatch appends the fields that follow the changes of a batch.
func (m *Message) EndWatch(revision uint64, synced bool) {
	begin := len(m.own)
	m.own = appendUint(m.own, fieldWatchRevision, revision)
	if synced {
		m.own = appendUint(m.own, fieldSynced, 1)
	}
	m.parts = append(m.parts, m.own[begin:])
}

// AddEnvelope appends an encoded object of a kind to a snapshot, in a core.v1.Object.
func (m *Message) AddEnvelope(kind string, encoded []byte) {
	if kind != m.kind {
		m.kind, m.field = kind, EnvelopeField(kind)
	}
	begin := len(m.own)
	m.own = appendHeader(m.own, fieldSnapshotObjects, protowire.SizeTag(m.field)+protowire.SizeBytes(len(encoded)))
	m.own = appendHeader(m.own, m.field, len(encoded))
	m.parts = append(m.parts, m.own[begin:], encoded)
}

// EndSnapshot appends the fields that follow the objects of a batch.
func (m *Message) EndSnapshot(epoch string, revision uint64, complete bool, total int) {
	tail := protowire.AppendString(protowire.AppendTag(nil, fieldSnapshotEpoch, protowire.BytesType), epoch)
	tail = appendUint(tail, fieldSnapshotRevision, revision)
	if complete {
		tail = appendUint(tail, fieldSnapshotComplete, 1)
	}
	m.parts = append(m.parts, appendUint(tail, fieldSnapshotTotal, uint64(total)))
}

// Change encodes one change for [Message.AddChanges]. changeType is a number of
// registryv1.ChangeType.
func Change(changeType int32, object []byte, revision uint64) []byte {
	inner := appendUint(nil, fieldChangeType, uint64(changeType))
	inner = append(inner, header(fieldChangeObject, len(object))...)
	inner = append(inner, object...)
	inner = appendUint(inner, fieldChangeRevision, revision)
	return append(header(fieldChanges, len(inner)), inner...)
}

func header(field protowire.Number, size int) []byte { return appendHeader(nil, field, size) }

func appendHeader(to []byte, field protowire.Number, size int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(to, field, protowire.BytesType), uint64(size))
}

func appendUint(to []byte, field protowire.Number, value uint64) []byte {
	if value == 0 {
		return to
	}
	return protowire.AppendVarint(protowire.AppendTag(to, field, protowire.VarintType), value)
}
