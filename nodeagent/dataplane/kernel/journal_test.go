package kernel_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/dataplane/kernel"
)

func openJournal(t testing.TB, path string) *kernel.Journal {
	t.Helper()
	j, err := kernel.OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func content(t testing.TB, j *kernel.Journal) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := j.Each(func(key, value string) error {
		out[key] = value
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestJournalComesBack checks that the next process reads back the entries that were put and not
// deleted, after any number of rewrites and with the file truncated at any place: entries that were
// flushed before that place are there.
func TestJournalComesBack(t *testing.T) {
	dir := t.TempDir()
	file := 0
	rapid.Check(t, func(r *rapid.T) {
		file++
		path := filepath.Join(dir, fmt.Sprint(file))
		j := openJournal(t, path)
		want := map[string]string{}
		for range rapid.IntRange(0, 40).Draw(r, "rounds") {
			for range rapid.IntRange(1, 100).Draw(r, "entries") {
				key := fmt.Sprint(rapid.IntRange(0, 30).Draw(r, "key"))
				if value := rapid.String().Draw(r, "value"); rapid.Bool().Draw(r, "put") {
					j.Put(key, value)
					want[key] = value
				} else {
					j.Delete(key)
					delete(want, key)
				}
			}
			if err := j.Flush(); err != nil {
				r.Fatal(err)
			}
		}
		before := fileSize(t, path)
		j.Put("late", "value")
		if err := j.Close(); err != nil {
			r.Fatal(err)
		}
		if after := fileSize(t, path); after > before {
			if err := os.Truncate(path, before+rapid.Int64Range(0, after-before-1).Draw(r, "cut")); err != nil {
				r.Fatal(err)
			}
		} else {
			want["late"] = "value" // the file was rewritten
		}
		next := openJournal(t, path)
		defer next.Close()
		if got := content(t, next); !maps.Equal(got, want) {
			r.Fatalf("got %q, want %q", got, want)
		}
	})
}

func fileSize(t testing.TB, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// TestJournalOfAnotherKernelIsVoid checks that a journal of another boot or namespace, and a file
// that is not a journal, are ignored.
func TestJournalOfAnotherKernelIsVoid(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := openJournal(t, path)
	j.Put("key", "value")
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := range 60 { // in the line with boot and namespace
		damaged := []byte(string(whole))
		damaged[at] ^= 1
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		next := openJournal(t, path)
		if got := content(t, next); len(got) > 0 {
			t.Errorf("byte %d changed: %q", at, got)
		}
		next.Close()
	}
}

// TestJournalIsRewritten checks that the file's size depends on the live entries and not on the
// number of changes.
func TestJournalIsRewritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := openJournal(t, path)
	for i := range 20000 {
		j.Put("key", fmt.Sprint(i))
		if err := j.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if size := fileSize(t, path); size > 64<<10 {
		t.Errorf("%d bytes", size)
	}
	if n := openFiles(t, path); n != 1 {
		t.Errorf("%d files are open", n)
	}
	if got := content(t, j); got["key"] != "19999" {
		t.Errorf("got %q", got)
	}
	if err := j.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left behind: %v", err)
	}
}

// openFiles counts the files that this process has open with names that begin with path, including
// deleted ones.
func openFiles(t *testing.T, path string) (n int) {
	t.Helper()
	const folder = "/proc/self/fd"
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if name, err := os.Readlink(filepath.Join(folder, f.Name())); err == nil && strings.HasPrefix(name, path) {
			n++
		}
	}
	return n
}

// TestJournalThatCannotBeWritten checks that each try returns the same error, with a reason of the
// node, so that it is reported once, and that the first try that succeeds writes everything.
func TestJournalThatCannotBeWritten(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data")
	path := filepath.Join(folder, "journal")
	j := openJournal(t, path)
	away := folder + ".away"
	if err := os.Rename(folder, away); err != nil {
		t.Fatal(err)
	}
	for i := range 20000 { // enough for the next Flush to rewrite the file
		j.Put("key", fmt.Sprint(i))
	}
	var errs []string
	for range 2 {
		j.Put("other", fmt.Sprint(len(errs)))
		err := j.Flush()
		if of, ok := errors.AsType[*dataplane.NodeError](err); !ok || of.Remedy == "" || !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("error %v, want one of the node, with a remedy", err)
		}
		errs = append(errs, err.Error())
	}
	if errs[0] != errs[1] || !strings.Contains(errs[0], path+": ") {
		t.Errorf("errors %q, want the same ones, with the path", errs)
	}
	if err := os.Rename(away, folder); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if got := content(t, openJournal(t, path)); got["other"] != "1" {
		t.Errorf("got %q", got)
	}
}

// TestIncompleteJournal checks that a journal that was missing or damaged is incomplete in the next processes too, with
// the entries that it has, until a process declares it complete.
func TestIncompleteJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	reopen := func(what string, complete bool, entries int, use func(*kernel.Journal)) {
		t.Helper()
		j := openJournal(t, path)
		if j.Complete() != complete || len(content(t, j)) != entries {
			t.Errorf("%s: complete %t with %d entries, want %t with %d", what, j.Complete(), len(content(t, j)), complete, entries)
		}
		use(j)
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	reopen("missing", false, 0, func(j *kernel.Journal) { j.Put("a", "1") })
	reopen("after a process that did not end its start", false, 1, func(j *kernel.Journal) {
		if err := j.SetComplete(); err != nil {
			t.Fatal(err)
		}
		j.Put("b", "2")
	})
	reopen("complete", true, 2, func(*kernel.Journal) {})
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text[:len(text)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	reopen("damaged", false, 1, func(*kernel.Journal) {})
	reopen("after the damage", false, 1, func(*kernel.Journal) {})
	if j := openJournal(t, ""); !j.Complete() {
		t.Error("a journal in memory is incomplete")
	}
}
