package script

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// otherUser is the UID of a user other than root and the user of scripts.
const otherUser = 4711

// newFolder returns a folder of scripts that the scripts' user can reach, with one script, check.
func newFolder(t *testing.T, content string) (*Folder, string) {
	t.Helper()
	dir := t.TempDir()
	for _, path := range []string{filepath.Dir(dir), dir} {
		chmod(t, path, 0o755)
	}
	write(t, filepath.Join(dir, "check"), content)
	f, err := Open(dir, "65534:65534")
	if err != nil {
		t.Fatal(err)
	}
	return f, dir
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil { // #nosec G306 -- a script is executable
		t.Fatal(err)
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func symlink(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

// TestScriptsThatAreRefused checks that programs other than scripts of the administrator are refused.
func TestScriptsThatAreRefused(t *testing.T) {
	chown := func(path string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if os.Geteuid() != 0 {
				t.Skip("allowed: only root can give a file to another user; TestAsAnotherUser has run this as root before")
			}
			if err := os.Lchown(filepath.Join(dir, path), otherUser, -1); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tc := range []struct {
		name, script string
		prepare      func(t *testing.T, dir string)
		part         string // of the error; empty: the script runs
	}{
		{name: "a script", script: "check"},
		{name: "a shell", script: "/bin/sh", part: "plain file name"},
		{name: "a path out of the folder", script: "../check", part: "plain file name"},
		{name: "a path in the folder", script: "./check", part: "plain file name"},
		{name: "the folder", script: ".", part: "plain file name"},
		{name: "nothing", script: "", part: "plain file name"},
		{name: "a missing script", script: "other", part: "no such file"},
		{name: "a link in the folder", script: "link", prepare: func(t *testing.T, dir string) { symlink(t, "check", filepath.Join(dir, "link")) }},
		{name: "a link out of the folder", script: "sh", prepare: func(t *testing.T, dir string) { symlink(t, "/bin/sh", filepath.Join(dir, "sh")) }, part: "out of the folder"},
		{name: "a link to nothing", script: "link", prepare: func(t *testing.T, dir string) { symlink(t, "link", filepath.Join(dir, "link")) }, part: "too many"},
		{name: "a folder in the folder", script: "sub", prepare: func(t *testing.T, dir string) {
			if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
				t.Fatal(err)
			}
		}, part: "no executable file"},
		{name: "a text", script: "check", prepare: func(t *testing.T, dir string) { chmod(t, filepath.Join(dir, "check"), 0o644) }, part: "no executable file"},
		{name: "a script that others can write", script: "check", prepare: func(t *testing.T, dir string) { chmod(t, filepath.Join(dir, "check"), 0o757) }, part: "written by others"},
		{name: "a script that a group can write", script: "check", prepare: func(t *testing.T, dir string) { chmod(t, filepath.Join(dir, "check"), 0o775) }, part: "written by others"},
		{name: "a folder that others can write", script: "check", prepare: func(t *testing.T, dir string) { chmod(t, dir, 0o777) }, part: "written by others"},
		{name: "a sticky folder that others can write", script: "check", prepare: func(t *testing.T, dir string) { chmod(t, dir, 0o777|os.ModeSticky) }, part: "written by others"},
		{name: "a folder in one that others can write", script: "check", prepare: func(t *testing.T, dir string) { chmod(t, filepath.Dir(dir), 0o777) }, part: "written by others"},
		{name: "a script of another user", script: "check", prepare: chown("check"), part: "belongs to user 4711"},
		{name: "a folder of another user", script: "check", prepare: chown("."), part: "belongs to user 4711"},
		{name: "a folder in one of another user", script: "check", prepare: chown(".."), part: "belongs to user 4711"},
		{name: "no folder", script: "check", prepare: func(t *testing.T, dir string) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}, part: "no such file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, dir := newFolder(t, "#!/bin/sh\n")
			if tc.prepare != nil {
				tc.prepare(t, dir)
			}
			err := f.Check([]string{tc.script}, Pod{})(t.Context())
			if tc.part == "" {
				if err != nil {
					t.Errorf("the script is refused: %v", err)
				}
				return
			}
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), tc.part) {
				t.Errorf("the error is %v, want a refusal with %q", err, tc.part)
			}
		})
	}
}

// TestWithoutAFolder checks that an agent without a folder of scripts refuses every check, and that a check
// without a command is refused, too.
func TestWithoutAFolder(t *testing.T) {
	none, err := Open("", "nobody")
	if err != nil {
		t.Fatal(err)
	}
	if err := none.Check([]string{"check"}, Pod{})(t.Context()); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "-check-dir") {
		t.Errorf("the error is %v", err)
	}
	f, _ := newFolder(t, "#!/bin/sh\n")
	if err := f.Check(nil, Pod{})(t.Context()); !errors.Is(err, ErrRefused) {
		t.Errorf("a check without a command: %v", err)
	}
}

// TestOpen checks the errors of the configuration.
func TestOpen(t *testing.T) {
	for _, tc := range []struct{ dir, user, part string }{
		{"relative", "nobody", "check-dir"},
		{"/x", "root", "without privileges"}, {"/x", "0:1", "without privileges"}, {"/x", "1:0", "without privileges"},
		{"/x", "no-such-user", "UID:GID"}, {"/x", "a:b", "UID:GID"}, {"/x", "1:", "UID:GID"}, {"/x", ":", "UID:GID"}, {"/x", "", "UID:GID"},
	} {
		_, err := Open(tc.dir, tc.user)
		if os.Geteuid() != 0 && filepath.IsAbs(tc.dir) {
			if err != nil {
				t.Errorf("the user %q is not used by an agent without root, and refused: %v", tc.user, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tc.part) {
			t.Errorf("%q as %q: %v, want %q", tc.dir, tc.user, err, tc.part)
		}
	}
}
