package yardstick

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Tick is the resolution of CPU times: the unit of /proc, which is the same on all Linux machines.
const Tick = 10 * time.Millisecond

// Fields of /proc/PID/stat after the name of the program.
const (
	statGroup          = 2  // process group
	statUser           = 11 // CPU time in the program, in ticks
	statSystem         = 12 // CPU time in the kernel, in ticks
	statChildrenUser   = 13 // the same for children that have ended
	statChildrenSystem = 14
)

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
	return time.Duration(total) * Tick
}

// CPU returns the CPU time that a process has used, or 0 if there is no process.
func CPU(pid int) time.Duration { return ticks(statFields(pid), statUser, statSystem) }

// CPUOfGroup returns the CPU time that the running processes of a process group have used.
func CPUOfGroup(group int) time.Duration {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well-formed
	total := time.Duration(0)
	for _, path := range stats {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if stat := statFields(pid); len(stat) > statGroup && stat[statGroup] == strconv.Itoa(group) {
			total += ticks(stat, statUser, statSystem)
		}
	}
	return total
}

// CPUOfTree returns the CPU time that a process and its children have used in the program and in the
// kernel, including children that have ended.
func CPUOfTree(pid int) (user, system time.Duration) {
	own := statFields(pid)
	user, system = ticks(own, statUser, statChildrenUser), ticks(own, statSystem, statChildrenSystem)
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, field := range strings.Fields(string(children)) {
		if child, err := strconv.Atoi(field); err == nil {
			stat := statFields(child)
			user, system = user+ticks(stat, statUser), system+ticks(stat, statSystem)
		}
	}
	return user, system
}

// Memory returns the resident memory of a process in bytes, now and at its peak. Both are 0 if there is
// no process.
func Memory(pid int) (now, peak int64) {
	content, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch kb, _ := strconv.ParseInt(fields[1], 10, 64); fields[0] {
		case "VmRSS:":
			now = kb << 10
		case "VmHWM:":
			peak = kb << 10
		}
	}
	return now, peak
}
