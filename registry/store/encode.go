package store

import (
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"

	"portolan.dev/services/kit/batch"
	"portolan.dev/services/object"
)

// vtMessage is implemented by the generated code of every kind: marshalling without reflection.
type vtMessage interface {
	MarshalVT() ([]byte, error)
	UnmarshalVT(data []byte) error
}

// Encode returns the object as it is stored, with resource_version 0. Encode changes o for the
// duration of the call, so o must not be used concurrently.
func Encode(o object.Object) ([]byte, error) {
	meta := object.MetaOf(o)
	revision := meta.ResourceVersion
	meta.ResourceVersion = 0
	defer func() { meta.ResourceVersion = revision }()
	return Marshal(o)
}

// Marshal encodes the object without changing it.
func Marshal(o object.Object) ([]byte, error) {
	if vt, ok := o.(vtMessage); ok {
		return vt.MarshalVT()
	}
	return proto.Marshal(o)
}

// Decode returns the object of a row or record, with its revision as resource_version.
func Decode(kind string, data []byte, revision uint64) (object.Object, error) {
	o := object.New(kind)
	if o == nil {
		return nil, fmt.Errorf("decode object: unknown kind %q", kind)
	}
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

// decoded is the object of a record. It is decoded when it is first asked for.
type decoded struct {
	once   sync.Once
	object object.Object
	err    error
}

// ShareObjects gives the records of a commit the objects of its operations, so that followers need not
// decode objects that this process has just encoded. outcomes are the outcomes of the operations.
// ShareObjects must be called before the records are published.
func ShareObjects(records []Record, ops []Op, outcomes []batch.Outcome[Result]) {
	if len(records) == 0 {
		return
	}
	for i, op := range ops {
		if op.Object == nil || outcomes[i].Err != nil {
			continue
		}
		record := &records[outcomes[i].Value.Revision-records[0].Revision]
		object.MetaOf(op.Object).ResourceVersion = record.Revision
		record.decoded = &decoded{object: op.Object}
		record.decoded.once.Do(func() {})
	}
}

// Object returns the object of a record, with its revision as resource_version. The object may be
// shared and must not be changed.
func (r *Record) Object() (object.Object, error) {
	if r.decoded == nil {
		return Decode(r.Key.Kind, r.Data, r.Revision)
	}
	d := r.decoded
	d.once.Do(func() { d.object, d.err = Decode(r.Key.Kind, r.Data, r.Revision) })
	return d.object, d.err
}
