package apply_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/apply"
	"portolan.dev/services/kinds"
	"portolan.dev/services/object"
)

// FuzzMerge applies any manifest of any kind to any stored object with any remembered paths.
// Neither of the two changes, applying the manifest again changes nothing, and every field of the
// manifest is in the result.
func FuzzMerge(f *testing.F) {
	for i, kind := range kinds.All {
		o := kind.New()
		object.MetaOf(o).Name, object.MetaOf(o).Labels = "a", map[string]string{"app": "web"}
		data, err := proto.Marshal(o)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), data, data, "metadata.labels[app]")
		f.Add(uint8(i), data, []byte{}, "spec.ports[80/TCP].name")
	}
	f.Fuzz(func(t *testing.T, which uint8, first, second []byte, path string) {
		kind := kinds.All[int(which)%len(kinds.All)]
		stored, manifest := kind.New(), kind.New()
		if proto.Unmarshal(first, stored) != nil || proto.Unmarshal(second, manifest) != nil {
			return
		}
		// The contents of a request are known fields only: unknown ones are dropped before.
		meta := object.MetaOf(stored)
		meta.ManagedFields = append(meta.ManagedFields, &corev1.ManagedFields{Manager: apply.Manager, Fields: []string{path}})
		before, wanted := object.Clone(stored), object.Clone(manifest)
		once := applied(stored, manifest)
		if !object.Equal(stored, before) || !object.Equal(manifest, wanted) {
			t.Fatal("the stored object or the manifest has changed")
		}
		if missing := apply.FieldsOf(manifest).Difference(apply.FieldsOf(once)); !missing.Empty() {
			t.Fatalf("%v of\n%v\nis not in\n%v", missing, manifest, once)
		}
		if twice := applied(once, manifest); !object.Equal(once, twice) {
			t.Fatalf("applied once\n%v\nand twice\n%v", once, twice)
		}
	})
}
