//go:build unix

package dev

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDataDirectoryOfOthersIsRefused checks that dev does not use a folder that another user could
// change. It needs root to make a folder of another user.
func TestDataDirectoryOfOthersIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(path string) error
		want    string // empty: accepted
	}{
		"own":               {func(path string) error { return os.Mkdir(path, 0o700) }, ""},
		"readable":          {func(path string) error { return os.Mkdir(path, 0o755) }, ""},
		"writable by group": {func(path string) error { return mkdir(path, 0o770) }, "can be written to by other users (mode 770)"},
		"writable by all":   {func(path string) error { return mkdir(path, 0o777) }, "can be written to by other users (mode 777)"},
		"link":              {func(path string) error { return os.Symlink(t.TempDir(), path) }, "is a symbolic link"},
		"file":              {func(path string) error { return os.WriteFile(path, nil, 0o600) }, "is no folder"},
		"of another user": {func(path string) error {
			if err := os.Mkdir(path, 0o700); err != nil {
				return err
			}
			return os.Chown(path, 65534, 65534)
		}, "belongs to another user (65534)"},
	} {
		if name == "of another user" && os.Geteuid() != 0 {
			continue
		}
		path := filepath.Join(t.TempDir(), "data")
		if err := c.prepare(path); err != nil {
			t.Fatal(err)
		}
		err := checkFolder(path)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// mkdir makes a folder with a mode that the mask of the process does not change.
func mkdir(path string, mode os.FileMode) error {
	if err := os.Mkdir(path, mode); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}
