package wire

import (
	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Numbers of the fields of all lists of Kubernetes.
const (
	listMetaField  = 1
	listItemsField = 2
)

// Numbers of the fields of the envelope (runtime.Unknown).
const (
	envelopeKind     = 1
	envelopeRaw      = 2
	envelopeEncoding = 3
	envelopeType     = 4
)

// joinProtobuf returns a list of encoded items in its envelope.
func joinProtobuf(typeMeta runtime.TypeMeta, list metav1.ListMeta, items [][]byte) ([]byte, error) {
	about, err := list.Marshal()
	if err != nil {
		return nil, err
	}
	size := sizeOf(about)
	for _, item := range items {
		size += sizeOf(item)
	}
	kind, err := typeMeta.Marshal()
	if err != nil {
		return nil, err
	}
	out := append(make([]byte, 0, len(protobufPrefix)+len(kind)+size+envelopeRoom), protobufPrefix...)
	out = protowire.AppendBytes(protowire.AppendTag(out, envelopeKind, protowire.BytesType), kind)
	out = protowire.AppendVarint(protowire.AppendTag(out, envelopeRaw, protowire.BytesType), uint64(size)) // #nosec G115 -- of bytes in memory
	out = protowire.AppendBytes(protowire.AppendTag(out, listMetaField, protowire.BytesType), about)
	for _, item := range items {
		out = protowire.AppendBytes(protowire.AppendTag(out, listItemsField, protowire.BytesType), item)
	}
	// Kubernetes' own encoder writes these though they are empty.
	out = protowire.AppendBytes(protowire.AppendTag(out, envelopeEncoding, protowire.BytesType), nil)
	return protowire.AppendBytes(protowire.AppendTag(out, envelopeType, protowire.BytesType), nil), nil
}

// envelopeRoom is the largest size of the tags and lengths of the envelope, in bytes.
const envelopeRoom = 32

// sizeOf returns the encoded size of a field of a list. The tag takes one byte.
func sizeOf(field []byte) int { return 1 + protowire.SizeBytes(len(field)) }
