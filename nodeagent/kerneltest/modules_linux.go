package kerneltest

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"portolan.dev/services/kit/kittest"
)

// WithoutModules takes modules out of the guest's kernel for the rest of the
// test, in this order. Nobody may be using them, or begin to.
func WithoutModules(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		kittest.Eventually(t, "nobody to use the module "+name, func() error {
			return unix.DeleteModule(name, unix.O_NONBLOCK)
		})
		t.Cleanup(func() { // last first, which is the order they need each other in
			if err := loadModule(filepath.Join("/", modulesDir, name)); err != nil {
				t.Errorf("load %s again: %v", name, err)
			}
		})
	}
}
