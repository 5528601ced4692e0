package backup

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protodelim"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry/store"
	"portolan.dev/services/object"
)

// FuzzRead reads any stream of records, with its own trailer or with the right one for its objects.
// The stream is refused as damaged, or its rows are the same after they were written and read
// again.
func FuzzRead(f *testing.F) {
	namespace := &corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: object.DefaultNamespace, Uid: "u1", ResourceVersion: 1}}
	service := &corev1.Service{Metadata: &corev1.ObjectMeta{Name: "web", Namespace: object.DefaultNamespace, Uid: "u2", ResourceVersion: 2}}
	lease := &corev1.Lease{Metadata: &corev1.ObjectMeta{Name: "leader", Namespace: object.DefaultNamespace, Uid: "u3", ResourceVersion: 3}}
	for _, objects := range [][]object.Object{{namespace}, {namespace, service, lease}, {namespace, service, service}, {service}} {
		stream := encode(f, written(f, 7, objects...))
		f.Add(stream, false)
		f.Add(stream[:len(stream)-1], true)
	}
	f.Add([]byte{}, true)
	f.Add([]byte{0, 0}, false)
	f.Fuzz(func(t *testing.T, stream []byte, seal bool) {
		records, err := decode(stream)
		if err != nil {
			return
		}
		if seal {
			records = sealed(t, records)
		}
		got, err := Read(from(records))
		if err != nil {
			if _, ok := errors.AsType[*DamagedError](err); !ok {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		var objects []object.Object
		for _, row := range got.Rows {
			o, err := store.Decode(row.Key.Kind, row.Data, row.Revision)
			if err != nil {
				t.Fatal(err)
			}
			objects = append(objects, o)
		}
		again, err := Read(from(written(t, got.Revision, objects...)))
		if err != nil || !slices.EqualFunc(again.Rows, got.Rows, func(a, b store.Row) bool {
			return a.Key == b.Key && a.UID == b.UID && a.Revision == b.Revision && a.Epoch == b.Epoch && bytes.Equal(a.Data, b.Data)
		}) {
			t.Fatalf("%v came back as %v, %v", got.Rows, again, err)
		}
	})
}

func written(tb testing.TB, revision uint64, objects ...object.Object) (records []*registryv1.BackupRecord) {
	tb.Helper()
	all := func(yield func(object.Object, error) bool) {
		for _, o := range objects {
			if !yield(o, nil) {
				return
			}
		}
	}
	if err := Write(Origin{Revision: revision, Version: "test", Installation: "original"}, iter.Seq2[object.Object, error](all), func(r *registryv1.BackupRecord) error {
		records = append(records, r)
		return nil
	}); err != nil {
		tb.Fatal(err)
	}
	return records
}

func encode(tb testing.TB, records []*registryv1.BackupRecord) []byte {
	tb.Helper()
	var out bytes.Buffer
	for _, record := range records {
		if _, err := protodelim.MarshalTo(&out, record); err != nil {
			tb.Fatal(err)
		}
	}
	return out.Bytes()
}

func decode(stream []byte) (records []*registryv1.BackupRecord, err error) {
	for in := bytes.NewReader(stream); ; {
		record := &registryv1.BackupRecord{}
		opts := protodelim.UnmarshalOptions{MaxSize: int64(max(1, len(stream)))}
		if err := opts.UnmarshalFrom(in, record); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return records, err
		}
		records = append(records, record)
	}
}

// sealed replaces the trailers by the right one for the objects.
func sealed(t *testing.T, records []*registryv1.BackupRecord) (out []*registryv1.BackupRecord) {
	t.Helper()
	sum := newChecksum()
	for _, record := range records {
		if record.GetTrailer() != nil {
			continue
		}
		out = append(out, record)
		for _, envelope := range record.GetObjects().GetObjects() {
			if _, err := sum.add(envelope); err != nil {
				t.Fatal(err)
			}
		}
	}
	trailer := &registryv1.BackupTrailer{Objects: sum.objects, Sha256: sum.hash.Sum(nil)}
	return append(out, &registryv1.BackupRecord{Record: &registryv1.BackupRecord_Trailer{Trailer: trailer}})
}

// from returns the receiver of a stream of records.
func from(records []*registryv1.BackupRecord) func() (*registryv1.BackupRecord, error) {
	return func() (*registryv1.BackupRecord, error) {
		if len(records) == 0 {
			return nil, io.EOF
		}
		record := records[0]
		records = records[1:]
		return record, nil
	}
}
