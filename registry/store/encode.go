package store

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"portolan.dev/services/object"
)

// vtMessage is what the generated code of every kind has: marshalling without reflection.
type vtMessage interface {
	MarshalVT() ([]byte, error)
	UnmarshalVT(data []byte) error
}

// Encode returns the object as the store keeps it: with resource_version 0. It changes o for the duration of the call only, so nobody else may use o
// meanwhile.
func Encode(o object.Object) ([]byte, error) {
	meta := object.MetaOf(o)
	revision := meta.ResourceVersion
	meta.ResourceVersion = 0
	defer func() { meta.ResourceVersion = revision }()
	if vt, ok := o.(vtMessage); ok {
		return vt.MarshalVT()
	}
	return proto.Marshal(o)
}

// Decode returns the object of a row or record, with its revision as resource_version.
func Decode(kind string, data []byte, revision uint64) (object.Object, error) {
	known, ok := object.KindNamed(kind)
	if !ok {
		return nil, fmt.Errorf("decode object: unknown kind %q", kind)
	}
	o := known.New()
	var err error
	if vt, ok := o.(vtMessage); ok {
		err = vt.UnmarshalVT(data)
	} else {
		err = proto.Unmarshal(data, o)
	}
	if err != nil {
		return nil, fmt.Errorf("decode object of kind %s: %w", kind, err)
	}
	object.MetaOf(o).ResourceVersion = revision
	return o, nil
}
