package manifest_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"portolan.dev/services/manifest"
)

// TestFiles lists a folder as git-sync and ConfigMaps make them: the folder is a link, files are links,
// and the versions are in hidden folders.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"v1/b.yaml", "v1/a.yml", "v1/sub/c.json", "v1/notes.txt", "v1/.hidden.yaml", "v1/.git/d.yaml", "v1/..data/e.yaml", "v1/folder.yaml/x"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	current := filepath.Join(dir, "current")
	for link, target := range map[string]string{current: "v1", filepath.Join(dir, "v1", "e.yaml"): "..data/e.yaml"} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	files, err := manifest.Files(current)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		name, err := filepath.Rel(current, file.Name)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, filepath.ToSlash(name))
		if _, err := os.Stat(file.Path); err != nil {
			t.Error(err)
		}
	}
	if want := []string{"a.yml", "b.yaml", "e.yaml", "sub/c.json"}; !slices.Equal(names, want) {
		t.Errorf("files %q, want %q", names, want)
	}

	one := filepath.Join(dir, "v1", "notes.txt")
	if files, err := manifest.Files(one); err != nil || !slices.Equal(files, []manifest.File{{Name: one, Path: one}}) {
		t.Errorf("a file that is named: %v, %v", files, err)
	}
	if _, err := manifest.Files(filepath.Join(dir, "none")); err == nil {
		t.Error("a folder that is missing is no error")
	}
}
