package apply_test

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

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
		meta.ManagedFields = apply.Remember(meta.GetManagedFields(), append(apply.FieldsOf(stored), path))
		before, wanted := object.Clone(stored), object.Clone(manifest)
		once := apply.Merge(stored, manifest)
		if !object.Equal(stored, before) || !object.Equal(manifest, wanted) {
			t.Fatal("the stored object or the manifest has changed")
		}
		paths := apply.FieldsOf(manifest)
		result := apply.FieldsOf(once)
		for _, path := range paths {
			if !slices.Contains(result, path) {
				t.Fatalf("%q of\n%v\nis not in\n%v", path, manifest, once)
			}
		}
		object.MetaOf(once).ManagedFields = apply.Remember(meta.GetManagedFields(), paths)
		if twice := apply.Merge(once, manifest); !object.Equal(once, twice) {
			t.Fatalf("applied once\n%v\nand twice\n%v", once, twice)
		}
	})
}
