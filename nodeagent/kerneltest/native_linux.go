package kerneltest

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// native tells whether tests can do in namespaces of this machine what they
// would do in the guest, and why not.
func native(probe func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread stays in its namespace, and ends
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
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil { // namespaces are kept by mounts
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
