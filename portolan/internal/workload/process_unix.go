//go:build unix

package workload

import (
	"os"
	"syscall"
)

// askToStop asks all processes of a program's group to stop.
func askToStop(program *os.Process) { _ = syscall.Kill(-program.Pid, syscall.SIGTERM) }

// kill ends all processes of a program's group.
func kill(program *os.Process) { _ = syscall.Kill(-program.Pid, syscall.SIGKILL) }
