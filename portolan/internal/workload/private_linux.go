package workload

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// mountNamespaces reports whether this system has them.
const mountNamespaces = true

// sockets are the folders through which the C library reaches a resolver that does not read
// resolv.conf.
var sockets = []string{"/run/systemd/resolve", "/run/nscd"}

// ExecWithResolver replaces this process by a command that has the given file as its resolv.conf,
// in a mount namespace of its own. The process keeps its ID, so that it is signalled and waited for
// as before. If it may not make the namespace, the command gets the search path in its environment,
// and ExecWithResolver writes a line about that to errOut.
func ExecWithResolver(path string, command []string, errOut io.Writer) error {
	program, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	runtime.LockOSThread() // a mount namespace belongs to a thread
	environment := os.Environ()
	if err := mountResolver(path, content); err != nil {
		_, _ = fmt.Fprintf(errOut, "names: no private resolv.conf (%v); the host's resolver is asked, with the search path in LOCALDOMAIN\n", err)
		environment = append(environment, ResolverConfig{Search: searchOf(path)}.environment()...)
	}
	// This thread becomes the process. It lacks the signal for its parent's death, which only the
	// first thread has.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(parentDied), 0, 0, 0); err != nil {
		return fmt.Errorf("signal for the parent's death: %w", err)
	}
	return syscall.Exec(program, command, environment)
}

// mountResolver makes the file this thread's resolv.conf, and hides the resolvers that would be
// asked instead.
func mountResolver(path string, content []byte) error {
	target, err := filepath.EvalSymlinks(hostResolvConf)
	if err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	for _, folder := range sockets {
		if _, err := os.Stat(folder); err != nil {
			continue
		}
		if err := unix.Mount("tmpfs", folder, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0755,size=64k"); err != nil {
			return fmt.Errorf("hide %s: %w", folder, err)
		}
		if strings.HasPrefix(target, folder+"/") { // the target was hidden too
			if err := os.WriteFile(target, content, 0o644); err != nil { // #nosec G306 G703 -- programs of all users read it; the name comes from the host's own link
				return err
			}
		}
	}
	if err := unix.Mount(path, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount over %s: %w", target, err)
	}
	return nil
}
