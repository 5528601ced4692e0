package script

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// run runs a command until it ends or ctx is done, and ends its process group in either case.
func (f *Folder) run(ctx context.Context, cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: f.user.credential()}
	if err := start(cmd); err != nil {
		if f.user != nil && errors.Is(err, syscall.EPERM) {
			return fmt.Errorf("the agent may not run it as user %d: give the agent CAP_SETUID, CAP_SETGID and CAP_KILL: %w", f.user.uid, err)
		}
		return err
	}
	group := cmd.Process.Pid
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		waitForEnd(group)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	// The group still has its leader, at least as a zombie, so its number cannot be another group's.
	killErr := unix.Kill(-group, unix.SIGKILL)
	<-ended
	err := cmd.Wait()
	if ctx.Err() != nil && killErr != nil {
		return fmt.Errorf("not ended: %w", killErr)
	}
	return err
}

// start starts a command from a thread of its own that has given up every way to gain privileges. The
// thread ends with the goroutine, because it stays locked.
func start(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		started <- func() error {
			if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
				return err
			}
			// An agent with capabilities of its unit but without root would pass them on.
			if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
				return err
			}
			return cmd.Start()
		}()
	}()
	return <-started
}

// waitForEnd waits until a child has ended, and leaves it a zombie.
func waitForEnd(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

func ownerOf(info fs.FileInfo) (int, bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Uid), true
}

// isRoot reports whether the agent can run programs as another user.
func isRoot() bool { return os.Geteuid() == 0 }

// credential returns the credential of the user, without supplementary groups.
func (u *user) credential() *syscall.Credential {
	if u == nil {
		return nil
	}
	return &syscall.Credential{Uid: u.uid, Gid: u.gid}
}
