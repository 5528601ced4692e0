package lab

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kit/identity"
)

// Machine is a process with a network namespace and an address of its own.
type Machine struct {
	Name      string
	Namespace *topology.Namespace
	Addresses [2]netip.Addr // IPv4, and IPv6
	// Disk is the folder of a small file system for the data of the process. It is empty if the
	// machine has none.
	Disk  string
	lab   *Lab
	start func() *labtest.Process
	ready func() error
	id    identity.ID    // in its certificate
	files identity.Files // of its certificate

	mu            sync.Mutex
	process       *labtest.Process // nil: it was killed
	logs          []string
	releaseFolder string // folder of its release; empty: the present one
}

// Start starts the process unless it runs.
func (m *Machine) Start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process != nil {
		return
	}
	m.process = m.start()
	m.logs = append(m.logs, m.process.LogFile())
	m.lab.Cleanup(func() { // runs before the cleanup of the process, which would stop it gently
		if err := m.Kill(); err != nil {
			m.lab.Error(err)
		}
	})
}

// Logs returns the log files of all processes that the machine has had.
func (m *Machine) Logs() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.logs)
}

// Kill kills the process and its children (kill -9), and waits until all are gone.
//
// All of them are stopped before the first one is killed, because they have to end at the same
// time, as in a crash of the machine. If the first process of Postgres died alone, the others would
// end their wait for the standby. For a moment, readers would see transactions that a fail-over
// then loses.
func (m *Machine) Kill() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process == nil {
		return nil
	}
	_, stopErr := signalWithChildren(m.process.PID(), syscall.SIGSTOP)
	all, err := signalWithChildren(m.process.PID(), syscall.SIGKILL)
	m.process.Kill()
	m.process = nil
	return errors.Join(stopErr, err, awaitExit(all))
}

// PID returns the ID of the process, or 0 if it was killed.
func (m *Machine) PID() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process == nil {
		return 0
	}
	return m.process.PID()
}

// Pause keeps the process and its children from running (SIGSTOP) until Continue.
func (m *Machine) Pause() error { return m.signal(syscall.SIGSTOP) }

// Continue lets a paused process run again.
func (m *Machine) Continue() error { return m.signal(syscall.SIGCONT) }

func (m *Machine) signal(s syscall.Signal) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process == nil {
		return nil
	}
	_, err := signalWithChildren(m.process.PID(), s)
	return err
}

// signalFirst sends a signal to the process alone, if it runs.
func (m *Machine) signalMain(s syscall.Signal) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process == nil {
		return nil
	}
	return syscall.Kill(m.process.PID(), s)
}

// signalFamily sends a signal to a process and its children, and returns them.
func signalWithChildren(pid int, s syscall.Signal) ([]int, error) {
	all, err := processAndChildren(pid)
	for _, pid := range all {
		_ = syscall.Kill(pid, s) // it may have ended
	}
	return all, err
}

// Ready returns an error if the process is not ready.
func (m *Machine) Ready() error {
	err := m.running()
	if err == nil {
		err = m.ready()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", m.Name, err)
	}
	return nil
}

var (
	errKilled = errors.New("it was killed")
	errExited = errors.New("it ended by itself")
)

// running returns errKilled or errEnded if the process does not run.
func (m *Machine) running() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process == nil {
		return errKilled
	}
	select {
	case <-m.process.Ended():
		return errExited
	default:
		return nil
	}
}

// Supervise starts the process again if it ended by itself, and reports whether it had.
func (m *Machine) Supervise() bool {
	if m.running() != errExited {
		return false
	}
	m.mu.Lock()
	m.process = nil
	m.mu.Unlock()
	m.Start()
	return true
}

// family returns a process, as the first element, and its children.
func processAndChildren(parent int) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	all := []int{parent}
	for _, path := range stats {
		content, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(content), ") ")
		fields := strings.Fields(rest) // state, parent, …
		if len(fields) < 2 || fields[1] != strconv.Itoa(parent) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			return all, err
		}
		all = append(all, pid)
	}
	return all, err
}

// awaitGone waits until killed processes have ended and their files and sockets are closed.
func awaitExit(all []int) error {
	deadline := time.Now().Add(stepTimeout)
	for _, pid := range all {
		for alive(pid) {
			if time.Now().After(deadline) {
				return fmt.Errorf("process %d does not end", pid)
			}
			<-time.After(time.Millisecond)
		}
	}
	return nil
}

// catches reports whether a process has a handler for a signal.
func handlesSignal(pid int, s syscall.Signal) bool {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(content), "\nSigCgt:")
	mask, _, _ := strings.Cut(rest, "\n")
	caught, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
	return err == nil && caught&(1<<(s-1)) != 0
}

// alive reports whether a process has not ended. A zombie has ended.
func alive(pid int) bool {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(content), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}
