package workload

import (
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// ownGroup returns the attributes of a program in a process group of its own.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// askToStop presses Ctrl-Break for all processes of a program's group, which is the signal
// [os.Interrupt] in Go programs.
func askToStop(program *os.Process) {
	_ = windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(program.Pid))
}

// kill ends the program. Windows has no signal for a group.
func kill(program *os.Process) { _ = program.Kill() }
