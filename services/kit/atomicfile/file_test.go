package atomicfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"portolan.dev/services/kit/atomicfile"
)

// wantFile compares a file with its contents and mode, and fails if there are other files beside it.
func wantFile(t *testing.T, path, content string, mode fs.FileMode) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != content {
		t.Errorf("%s has %q, want %q: %v", path, got, content, err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != mode {
		t.Errorf("%s: %v, want mode %v: %v", path, info, mode, err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder has %v: %v", entries, err)
	}
}

func TestWriteFileReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, content := range []string{"long content", "short"} {
		if err := atomicfile.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		wantFile(t, path, content, 0o644)
	}
}

func TestALinkIsReplaced(t *testing.T) {
	target := filepath.Join(t.TempDir(), "target")
	path := filepath.Join(t.TempDir(), "link")
	if err := errors.Join(os.WriteFile(target, []byte("target"), 0o600), os.Symlink(target, path)); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.WriteFile(path, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantFile(t, path, "new", 0o600)
	wantFile(t, target, "target", 0o600)
}

func TestADiscardedFileLeavesTheOldOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := atomicfile.Create(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("half"); err != nil {
		t.Fatal(err)
	}
	f.Discard()
	wantFile(t, path, "old", 0o600)
}

func TestCommitNewKeepsAnExistingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, want := range []error{nil, fs.ErrExist} {
		f, err := atomicfile.Create(path, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(map[bool]string{true: "first", false: "second"}[want == nil]); err != nil {
			t.Fatal(err)
		}
		if err := f.CommitNew(); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
		f.Discard()
	}
	wantFile(t, path, "first", 0o600)
}

func TestAFileIsPrivateUntilItIsComplete(t *testing.T) {
	f, err := atomicfile.Create(filepath.Join(t.TempDir(), "file"), 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Discard()
	if info, err := f.Stat(); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v: %v", info, err)
	}
}
