package viewfile_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/changes/viewfile"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// services yields n services.
func services(n int) iter.Seq[object.Object] {
	return func(yield func(object.Object) bool) {
		for i := range n {
			s := &corev1.Service{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("s", i)}}
			if !yield(s) {
				return
			}
		}
	}
}

func save(t *testing.T, owner string, n int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "view.pb")
	if err := viewfile.Save(path, owner, 7, services(n)); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSavedIsLoaded checks numbers of objects at the limits of batches.
func TestSavedIsLoaded(t *testing.T) {
	for _, n := range []int{0, 1, 255, 256, 257, 512, 600} {
		got, err := viewfile.Load(save(t, "here", n), "here")
		if err != nil {
			t.Fatalf("%d objects: %v", n, err)
		}
		if got.Revision != 7 || time.Since(got.At) > time.Minute {
			t.Errorf("%d objects: revision %d, current at %s", n, got.Revision, got.At)
		}
		if !slices.EqualFunc(got.Objects, slices.Collect(services(n)), object.Equal) {
			t.Errorf("%d objects were saved, others were loaded: %d", n, len(got.Objects))
		}
	}
}

// TestDamagedFilesAreRefused checks that Load refuses every proper prefix of a file and every file
// with one changed byte.
func TestDamagedFilesAreRefused(t *testing.T) {
	path := save(t, "here", 300)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string, content []byte) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := viewfile.Load(path, "here"); err == nil || len(got.Objects) > 0 || got.Revision != 0 {
			t.Fatalf("%s was taken for a view: %v", what, err)
		}
	}
	for n := 0; n < len(whole); n += max(1, len(whole)/200) {
		refused(fmt.Sprintf("the first %d of %d bytes", n, len(whole)), whole[:n])
	}
	for i := 0; i < len(whole); i += max(1, len(whole)/200) {
		flipped := slices.Clone(whole)
		flipped[i] ^= 0x10
		refused(fmt.Sprintf("a file whose byte %d was changed", i), flipped)
	}
	refused("a file with something behind its end", append(slices.Clone(whole), 'x'))
	if _, err := viewfile.Load(path+".none", "here"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// TestForeignFilesAreRefused checks that Load refuses a file from another machine's disk, and one
// of another program or version.
func TestForeignFilesAreRefused(t *testing.T) {
	path := save(t, "there", 1)
	if _, err := viewfile.Load(path, "here"); err == nil || !strings.Contains(err.Error(), `view of "there", this is "here"`) {
		t.Errorf("another owner's view: %v", err)
	}
	if err := os.WriteFile(path, []byte("something else\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := viewfile.Load(path, "here"); err == nil || !strings.Contains(err.Error(), "no view of this version") {
		t.Errorf("another program's file: %v", err)
	}
}

// TestKeepLeavesWhatWasLoaded runs Keep for a view that was loaded from the file and never changed.
// The file must keep its age, also after the view is gone.
func TestKeepLeavesWhatWasLoaded(t *testing.T) {
	path := save(t, "here", 1)
	old := time.Now().Add(-time.Hour).Truncate(time.Second)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	for _, revision := range []uint64{7, 0} {
		stop := kittest.Run(t, "keep", func(ctx context.Context) error {
			return viewfile.Keep(ctx, viewfile.KeepOptions{
				Path: path, Every: time.Hour, Revision: func() uint64 { return revision }, Loaded: 7,
				Current: func() bool { return false },
				Save:    func(path string) error { return viewfile.Save(path, "here", revision, services(0)) },
				Report:  func(err error) { t.Errorf("saved: %v", err) },
			})
		})
		stop()
		if got, err := viewfile.Load(path, "here"); err != nil || !got.At.Equal(old) || len(got.Objects) != 1 {
			t.Errorf("revision %d: %d objects, current at %s: %v", revision, len(got.Objects), got.At, err)
		}
	}
}

func TestKeep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "view.pb")
	changed, results := make(chan struct{}, 1), make(chan error, 100)
	var current atomic.Bool
	var revision atomic.Uint64
	stop := kittest.Run(t, "keep", func(ctx context.Context) error {
		return viewfile.Keep(ctx, viewfile.KeepOptions{
			Path: path, Changed: changed, Every: time.Millisecond, Current: current.Load, Revision: revision.Load,
			Save:   func(path string) error { return viewfile.Save(path, "here", revision.Load(), services(1)) },
			Report: func(err error) { results <- err },
		})
	})
	revision.Store(1)
	changed <- struct{}{}
	if err := kittest.Receive(t, "the first save", results); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	current.Store(true)
	kittest.Eventually(t, "the file to be marked as current", func() error {
		if got, err := viewfile.Load(path, "here"); err != nil || got.At.Before(old.Add(time.Minute)) {
			return fmt.Errorf("current at %s: %v", got.At, err)
		}
		return nil
	})
	revision.Store(2)
	// Keep got no notice of the change, and still saves the view at its end.
	stop()
	if got, err := viewfile.Load(path, "here"); err != nil || got.Revision != 2 {
		t.Errorf("revision %d on disk: %v", got.Revision, err)
	}
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(files) != 1 {
		t.Errorf("%d files left: %v", len(files), err)
	}
}
