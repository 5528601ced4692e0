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

// The process's first thread is the main goroutine's. Any other goroutine that
// ended there in a network namespace would leave it there, since this thread
// cannot end before the process: the namespace would stay, and what it uses.
func init() { runtime.LockOSThread() }

// WithoutModules takes modules out of the guest's kernel, in this order, until
// loaded is called or the test is over. Nobody may be using them, or begin to.
func WithoutModules(t testing.TB, names ...string) (loaded func()) {
	t.Helper()
	var gone []string
	loaded = sync.OnceFunc(func() {
		for _, name := range slices.Backward(gone) { // the order they need each other in
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
