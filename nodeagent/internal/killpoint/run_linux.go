package killpoint

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Result is the end of a process.
type Result struct {
	Steps  int  // that the process came to
	Killed bool // before the last of them
}

// ErrUnsupported is returned if the process cannot be stopped at its steps on this machine.
var ErrUnsupported = errors.New("kill points need seccomp with a listener")

// notification is the kernel's struct seccomp_notif.
type notification struct {
	id         uint64
	pid, flags uint32
	number     int32
	arch       uint32
	ip         uint64
	arguments  [6]uint64
}

// response is the kernel's struct seccomp_notif_resp.
type response struct {
	id           uint64
	value        int64
	error, flags uint32
}

// Run starts a process that calls Arm, and kills it before its n-th step; 0: it is not killed. Writes are steps if
// they are to a file with the prefix in its path. The process has ended when Run returns.
func Run(cmd *exec.Cmd, n int, prefix string) (Result, error) {
	var r Result
	out, err := cmd.StdoutPipe()
	if err != nil {
		return r, err
	}
	if err := cmd.Start(); err != nil {
		return r, err
	}
	err = r.watch(cmd.Process, out, n, prefix)
	if err != nil {
		cmd.Process.Kill() //nolint:errcheck // it may have ended
	}
	ended := cmd.Wait()
	switch {
	case err != nil:
		return r, err
	case !r.Killed && ended != nil:
		return r, ended
	}
	return r, nil
}

// watch lets the process pass its steps until the n-th.
func (r *Result) watch(process *os.Process, out io.Reader, n int, prefix string) error {
	handle, err := unix.PidfdOpen(process.Pid, 0)
	if err != nil {
		return os.NewSyscallError("pidfd_open", err)
	}
	defer unix.Close(handle)
	listener, err := listenerOf(handle, out)
	if err != nil {
		return err
	}
	defer unix.Close(listener)
	for {
		// The listener alone does not tell of the end before the process has been waited for.
		poll := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}, {Fd: int32(handle), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("poll", err)
		}
		switch {
		case poll[0].Revents&unix.POLLIN != 0:
		case poll[1].Revents != 0: // the process has ended
			return nil
		default:
			continue
		}
		var stopped notification
		if err := control(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&stopped)); err != nil {
			if errors.Is(err, unix.ENOENT) { // the thread has ended meanwhile
				continue
			}
			return err
		}
		if isStep(&stopped, prefix) {
			if r.Steps++; r.Steps == n {
				r.Killed = true
				return process.Kill()
			}
		}
		pass := response{id: stopped.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		if err := control(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&pass)); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
}

// listenerOf returns the descriptor that a process has announced.
func listenerOf(handle int, out io.Reader) (int, error) {
	line, err := bufio.NewReader(out).ReadString('\n')
	number, announced := strings.CutPrefix(strings.TrimSpace(line), armed)
	if !announced {
		return -1, errors.Join(ErrUnsupported, err)
	}
	theirs, err := strconv.Atoi(number)
	if err != nil {
		return -1, err
	}
	ours, err := unix.PidfdGetfd(handle, theirs, 0)
	return ours, os.NewSyscallError("pidfd_getfd", err)
}

func control(fd int, request uintptr, argument unsafe.Pointer) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(argument))
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return errno
		}
	}
}

// isStep reports whether a system call changes the kernel's tables or a file.
func isStep(s *notification, prefix string) bool {
	pid := int(s.pid)
	switch s.number {
	case unix.SYS_WRITE:
		path, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, s.arguments[0]))
		return err == nil && strings.HasPrefix(path, prefix)
	case unix.SYS_SENDTO:
		return !onlyReads(pid, uintptr(s.arguments[1]))
	case unix.SYS_SENDMSG:
		const offsetVector = 16 // of msg_iov in struct msghdr
		vector, err := word(pid, uintptr(s.arguments[1])+offsetVector)
		if err != nil {
			return true
		}
		base, err := word(pid, uintptr(vector))
		return err != nil || !onlyReads(pid, uintptr(base))
	}
	return true
}

// onlyReads reports whether a netlink message requests a list.
func onlyReads(pid int, message uintptr) bool {
	header, err := word(pid, message)
	flags := uint16(header >> 48)
	return err == nil && flags&unix.NLM_F_DUMP == unix.NLM_F_DUMP
}

// word reads eight bytes of a process's memory.
func word(pid int, at uintptr) (uint64, error) {
	var b [8]byte
	local := []unix.Iovec{{Base: &b[0], Len: uint64(len(b))}}
	n, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: at, Len: len(b)}}, 0)
	if err != nil || n != len(b) {
		return 0, errors.Join(errors.New("memory not read"), err)
	}
	return binary.NativeEndian.Uint64(b[:]), nil
}
