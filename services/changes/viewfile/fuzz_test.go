package viewfile

import (
	"bytes"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protodelim"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// FuzzRead reads files with the right checksum and any contents. A file is refused, or its objects
// are the same after they were saved and loaded again.
func FuzzRead(f *testing.F) {
	path := filepath.Join(f.TempDir(), "view")
	objects := []object.Object{
		&corev1.Service{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: "web"}},
		&corev1.Node{Metadata: &corev1.ObjectMeta{Name: "n1"}},
	}
	if err := Save(path, "here", 7, slices.Values(objects)); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole[:len(whole)-crc32.Size])
	f.Add([]byte(fileForm + " here\n"))
	f.Add([]byte(fileForm + " there\n"))
	f.Add([]byte(fileForm + " here\n\xff\xff\xff\x7f"))                                 // a batch of 256 MiB
	f.Add([]byte(fileForm + " here\n\x02\x18\x01"))                                     // no objects
	f.Add([]byte(fileForm + " here\n\x04\x12\x02\x0a\x00\x04\x18\x01\x20\x01"))         // an object without a name
	f.Add([]byte(fileForm + " here\n\x04\x18\x01\x20\xff\x0a\xff\xff\xff\xff\xff\xff")) // wrong counts
	f.Fuzz(func(t *testing.T, body []byte) {
		file := append(slices.Clone(body), crcOf(body)...)
		got, revision, err := read(bytes.NewReader(file), "here", int64(len(file)))
		if err != nil {
			if got != nil || revision != 0 {
				t.Fatalf("%d objects of revision %d, and %v", len(got), revision, err)
			}
			return
		}
		path := filepath.Join(t.TempDir(), "view")
		if err := Save(path, "here", revision, slices.Values(got)); err != nil {
			t.Fatal(err)
		}
		again, err := Load(path, "here")
		if err != nil || again.Revision != revision || !slices.EqualFunc(again.Objects, got, object.Equal) {
			t.Fatalf("%v of revision %d came back as %v of %d: %v", got, revision, again.Objects, again.Revision, err)
		}
	})
}

func crcOf(body []byte) []byte {
	sum := crc32.New(castagnoli)
	sum.Write(body)
	return sum.Sum(nil)
}

// TestHugeBatch checks that a batch that claims to be longer than the file is refused before memory
// is reserved for it.
func TestHugeBatch(t *testing.T) {
	file := []byte(fileForm + " here\n\xff\xff\xff\x7f")
	_, _, err := read(bytes.NewReader(file), "here", int64(len(file)))
	if _, ok := errors.AsType[*protodelim.SizeTooLargeError](err); !ok {
		t.Errorf("got %v", err)
	}
}
