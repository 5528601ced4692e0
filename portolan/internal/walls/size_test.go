package walls

import (
	"io/fs"
	"path/filepath"
	"testing"
)

// maxFileBytes is well above the largest file of source, a generated one.
const maxFileBytes = 512 << 10

// TestNoBuiltPrograms finds files that are too large for source. `go build` in the folder of a command
// leaves a program there, which is then easily committed.
func TestNoBuiltPrograms(t *testing.T) {
	const root = repository + "/"
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if rel, _ := filepath.Rel(root, name); rel == "bin" || rel == "dist" || rel != "." && entry.IsDir() && entry.Name()[0] == '.' {
			return fs.SkipDir
		}
		if entry.IsDir() {
			return nil
		}
		info, err := entry.Info()
		if err == nil && info.Size() > maxFileBytes {
			t.Errorf("%s has %d bytes: is it a program that was built there?", name, info.Size())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
