package wire

import (
	"bytes"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"portolan.dev/services/kube"
)

// Joins reports whether lists in the format can be joined from encoded items.
func (f *Format) Joins() bool {
	return f.As == Untransformed && !f.Pretty && (f.MediaType == JSON || f.MediaType == Protobuf)
}

// Item returns an object as an item for Join. It changes the object.
func (f *Format) Item(o kube.Object) ([]byte, error) {
	o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // the list names it
	if f.MediaType == JSON {
		return json.Marshal(o)
	}
	message, ok := o.(interface{ Marshal() ([]byte, error) })
	if !ok {
		return nil, fmt.Errorf("%T has no protobuf", o)
	}
	return message.Marshal()
}

// Join returns the encoded list of a kind from items that Item has encoded. The result is the same as
// Encode's. Joins must be true for the format.
func (f *Format) Join(kind schema.GroupVersionKind, list metav1.ListMeta, items [][]byte) ([]byte, error) {
	typeMeta := runtime.TypeMeta{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind + "List"}
	if f.MediaType == Protobuf {
		return joinProtobuf(typeMeta, list, items)
	}
	around, err := json.Marshal(&metav1.PartialObjectMetadataList{
		TypeMeta: metav1.TypeMeta{APIVersion: typeMeta.APIVersion, Kind: typeMeta.Kind}, ListMeta: list, Items: []metav1.PartialObjectMetadata{},
	})
	if err != nil {
		return nil, err
	}
	const end = "]}"
	size := len(around) + 1
	for _, item := range items {
		size += len(item) + 1
	}
	out := append(make([]byte, 0, size), bytes.TrimSuffix(around, []byte(end))...)
	for i, item := range items {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, item...)
	}
	return append(out, end+"\n"...), nil
}
