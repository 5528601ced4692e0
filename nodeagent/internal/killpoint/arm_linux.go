package killpoint

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stops are the system calls at which the process stops.
var stops = []uint32{unix.SYS_SENDTO, unix.SYS_SENDMSG, unix.SYS_WRITE, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2}

// Offsets in the kernel's struct seccomp_data.
const (
	offsetNumber        = 0
	offsetFirstArgument = 16
)

// Arm makes the process stop at each step, and tells its parent over the standard output. It needs
// CAP_SYS_ADMIN. It returns an error if the kernel does not support it.
func Arm() error {
	fd, err := install(program())
	if err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	// The program lets this write pass.
	_, err = fmt.Printf("%s%d\n", armed, fd)
	return err
}

// armed begins the line about the descriptor that the parent decides by.
const armed = "killpoint: armed "

// program returns the filter. Writes to the standard output and the standard error pass.
func program() []unix.SockFilter {
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	give := func(action uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
	}
	out := []unix.SockFilter{
		load(offsetNumber),
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_WRITE, Jf: 3},
		load(offsetFirstArgument),
		{Code: unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K, K: uint32(unix.Stderr), Jt: uint8(len(stops)) + 2},
		give(unix.SECCOMP_RET_ALLOW),
	}
	for i, call := range stops {
		out = append(out, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jt: uint8(len(stops) - i)})
	}
	return append(out, give(unix.SECCOMP_RET_ALLOW), give(unix.SECCOMP_RET_USER_NOTIF))
}

// install installs the filter in all threads of the process.
func install(filter []unix.SockFilter) (fd int, err error) {
	code := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH
	got, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&code)))
	runtime.KeepAlive(filter)
	if errno != 0 {
		return -1, os.NewSyscallError("install a filter", errno)
	}
	return int(got), nil
}
