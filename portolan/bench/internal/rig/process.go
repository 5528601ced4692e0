package rig

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tick is the unit of CPU time in /proc.
const tick = 10 * time.Millisecond

// Process is a process that a benchmark has started by itself.
type Process struct{ Cmd *exec.Cmd }

// Stop ends the process by SIGTERM and waits for it.
func (p Process) Stop() { stop(p.Cmd, syscall.SIGTERM) }

// CPU returns the CPU time that the process has used.
func (p Process) CPU() time.Duration { return cpuOf(p.Cmd.Process.Pid) }

// stop ends a process and waits for it.
func stop(cmd *exec.Cmd, sig syscall.Signal) {
	_ = cmd.Process.Signal(sig)
	_ = cmd.Wait()
}

// statFields returns the fields of /proc/PID/stat after the name, or nil if there is no process.
func statFields(pid int) []string {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	// The second field is a name in parentheses that may contain any character.
	return strings.Fields(string(content[strings.LastIndexByte(string(content), ')')+1:]))
}

// ticks returns the sum of fields of /proc/PID/stat that count ticks.
func ticks(stat []string, fields ...int) time.Duration {
	total := 0
	for _, i := range fields {
		if i < len(stat) {
			n, _ := strconv.Atoi(stat[i])
			total += n
		}
	}
	return time.Duration(total) * tick
}

// cpuOf returns the CPU time that a process has used.
func cpuOf(pid int) time.Duration { return ticks(statFields(pid), 11, 12) }

// residentOf returns the resident memory of a process in bytes.
func residentOf(pid int) int64 {
	stat := statFields(pid)
	if len(stat) <= 21 {
		return 0
	}
	pages, _ := strconv.ParseInt(stat[21], 10, 64)
	return pages * int64(os.Getpagesize())
}

// cpuOfTree returns the CPU time that a process and its children have used in the program and in the
// kernel, including children that have ended.
func cpuOfTree(pid int) (user, system time.Duration) {
	own := statFields(pid)
	user, system = ticks(own, 11, 13), ticks(own, 12, 14)
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, field := range strings.Fields(string(children)) {
		if child, err := strconv.Atoi(field); err == nil {
			stat := statFields(child)
			user, system = user+ticks(stat, 11), system+ticks(stat, 12)
		}
	}
	return user, system
}

// CPUOfSelf returns the CPU time of this process.
func CPUOfSelf() time.Duration { return rusage(syscall.RUSAGE_SELF) }

// CPUOfExited returns the CPU time of the child processes of this one that have exited.
func CPUOfExited() time.Duration { return rusage(syscall.RUSAGE_CHILDREN) }

func rusage(who int) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(who, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// FreeAddr returns a loopback address that was free a moment before.
func FreeAddr() (string, error) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return lis.Addr().String(), lis.Close()
}
