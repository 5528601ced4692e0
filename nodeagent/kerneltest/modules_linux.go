package kerneltest

import (
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"portolan.dev/services/kit/kittest"
)

// The main goroutine stays on the process's first thread. If another goroutine ended on that thread
// in a network namespace, the thread would stay there until the process ends, and would keep the
// namespace alive.
func init() { runtime.LockOSThread() }

// WithoutModules removes modules from the guest's kernel, in the given order, until loaded is
// called or the test ends. The modules must not be in use, and must not come into use.
func WithoutModules(t testing.TB, names ...string) (loaded func()) {
	t.Helper()
	var gone []string
	loaded = sync.OnceFunc(func() {
		for _, name := range slices.Backward(gone) { // in the order of dependencies
			if err := loadModule(filepath.Join("/", modulesDir, name)); err != nil {
				t.Errorf("load %s again: %v", name, err)
			}
		}
	})
	t.Cleanup(loaded)
	for _, name := range names {
		kittest.Eventually(t, "nobody to use the module "+name, func() error {
			return unix.DeleteModule(name, unix.O_NONBLOCK)
		})
		gone = append(gone, name)
	}
	return loaded
}
