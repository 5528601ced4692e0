package host

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Within runs fn on a thread in the network namespace at a path such as /run/netns/x. If the path
// is empty, it runs fn in the namespace of the process. Sockets that fn opens stay in the
// namespace.
func Within(path string, fn func() error) error {
	if path == "" {
		return fn()
	}
	ns, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("network namespace: %w", err)
	}
	defer ns.Close()
	result := make(chan error, 1)
	go func() {
		// Never unlocked: the thread ends with the goroutine, so that no other goroutine runs in
		// this namespace.
		runtime.LockOSThread()
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			result <- fmt.Errorf("network namespace %s: %w", path, err)
			return
		}
		result <- fn()
	}()
	return <-result
}
