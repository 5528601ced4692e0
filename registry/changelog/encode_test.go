package changelog_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry/changelog"
	"portolan.dev/registry/store"
	"portolan.dev/services/kinds"
	"portolan.dev/services/object"
)

// TestEncode checks, for each kind, that the encoding of a record decodes to its change, and that it
// is the same at each call although the object has maps, which are encoded in a random order.
func TestEncode(t *testing.T) {
	many := map[string]string{}
	for i := range 50 {
		many[fmt.Sprintf("label-%d", i)] = fmt.Sprint(i)
	}
	for i, kind := range kinds.All {
		o := object.New(kind.Name)
		*object.MetaOf(o) = corev1.ObjectMeta{Name: "a", Namespace: "default", Uid: "u", Labels: many, Annotations: many}
		data, err := store.Encode(o)
		if err != nil {
			t.Fatal(err)
		}
		record := store.Record{
			Revision: uint64(1_000 + i), Type: registryv1.ChangeType_CHANGE_TYPE_DELETE, Key: object.KeyOf(o), UID: "u", Data: data,
			Time: time.Unix(1_700_000_000, 123_456_000), Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		}
		want, err := changelog.Change(record)
		if err != nil {
			t.Fatal(err)
		}
		encoded, got := changelog.Encode(record), &registryv1.Change{}
		if err := got.UnmarshalVT(encoded); err != nil || !proto.Equal(got, want) {
			t.Errorf("%s: decoded to %v, want %v: %v", kind.Name, got, want, err)
		}
		for range 10 {
			if !bytes.Equal(changelog.Encode(record), encoded) {
				t.Fatalf("%s is encoded in two ways", kind.Name)
			}
		}
		record.Traceparent, record.Time = "", time.Unix(1_700_000_000, 0)
		if want, err = changelog.Change(record); err != nil {
			t.Fatal(err)
		}
		got = &registryv1.Change{}
		if err := got.UnmarshalVT(changelog.Encode(record)); err != nil || !proto.Equal(got, want) {
			t.Errorf("%s without a trace: decoded to %v, want %v: %v", kind.Name, got, want, err)
		}
	}
}
