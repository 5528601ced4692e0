package workload

import "syscall"

// parentDied is the signal that a program gets if `portolan run` dies.
const parentDied = syscall.SIGTERM

// ownGroup returns the attributes of a program in a process group of its own.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: parentDied}
}
