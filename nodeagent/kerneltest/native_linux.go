package kerneltest

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// native returns an error unless the tests can run in namespaces of this machine as they do in the
// guest.
func native(probe func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread must end in its namespace
		result <- tryNamespace(probe)
	}()
	return <-result
}

func tryNamespace(probe func() error) error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("network namespace: %w", err)
	}
	dir, err := os.MkdirTemp("", "kerneltest-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil { // mounts keep namespaces alive
		return fmt.Errorf("mount: %w", err)
	}
	if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
		return err
	}
	// Tests change settings of their namespaces.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return err
	}
	return probe()
}
