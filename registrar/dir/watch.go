package dir

import (
	"context"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/fsnotify/fsnotify"

	"portolan.dev/services/manifest"
)

// watch gets changes of a folder from the kernel. Without it, changes are found by the periodic read only.
type watch struct {
	path    string
	log     *slog.Logger
	watcher *fsnotify.Watcher // nil: the kernel has no watch left
	failed  bool              // the first failure to watch a folder was logged
}

func newWatch(path string, log *slog.Logger) *watch {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("changes of the folder are seen at the next periodic read only", "error", err)
		watcher = nil
	}
	return &watch{path: path, log: log, watcher: watcher}
}

// follow watches the folders that exist now. It also watches the parent of the path, because the path may be
// a link that is replaced.
func (w *watch) follow() {
	if w.watcher == nil {
		return
	}
	want := append(foldersIn(w.path), filepath.Dir(filepath.Clean(w.path)))
	for _, folder := range w.watcher.WatchList() {
		if !slices.Contains(want, folder) {
			_ = w.watcher.Remove(folder) // it may be gone
		}
	}
	for _, folder := range want {
		// Add is repeated for each folder, because a folder may have been replaced by another of its name.
		if err := w.watcher.Add(folder); err != nil && !w.failed {
			w.failed = true
			w.log.Warn("changes of a folder are seen at the next periodic read only", "in", folder, "error", err)
		}
	}
}

// foldersIn returns the folder at a path and all folders below it, except hidden ones. Folders that cannot be
// read are left out.
func foldersIn(path string) []string {
	root, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil
	}
	var folders []string
	_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || !entry.IsDir():
			return nil
		case path != root && manifest.IsHidden(entry.Name()):
			return fs.SkipDir
		}
		folders = append(folders, path)
		return nil
	})
	return folders
}

// forward calls changed for each change until ctx is done or the watch is closed.
func (w *watch) forward(ctx context.Context, changed func()) {
	if w.watcher == nil {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case event, ok := <-w.watcher.Events:
			if !ok {
				return
			}
			if event.Op != fsnotify.Chmod && w.concerns(event.Name) {
				changed()
			}
		case _, ok := <-w.watcher.Errors: // the kernel has lost events
			if !ok {
				return
			}
			changed()
		}
	}
}

// concerns reports whether a changed path belongs to the folder. Neighbours of the folder do not.
func (w *watch) concerns(changed string) bool {
	path := filepath.Clean(w.path)
	return changed == path || filepath.Dir(changed) != filepath.Dir(path)
}

func (w *watch) close() {
	if w.watcher != nil {
		_ = w.watcher.Close() // an error would have no consequence
	}
}
