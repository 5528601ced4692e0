//go:build unix && !linux

package workload

import "syscall"

// ownGroup returns the attributes of a program in a process group of its own. The program outlives
// `portolan run` if that is killed, because only Linux can signal a parent's death.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
