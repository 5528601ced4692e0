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
	Addresses [2]netip.Addr // IPv4 and IPv6
	// Disk is the mount point of a small file system for the data of the process. It is empty if
	// the machine has no disk.
	Disk  string
	lab   *Lab
	start func() *labtest.Process
	ready func() error
	id    identity.ID    // the identity in the certificate
	files identity.Files // the paths of certificate, key and authorities

	mu            sync.Mutex
	process       *labtest.Process // nil: not started, or killed
	logs          []string
	releaseFolder string // folder with the daemons of its release; empty: the current one
}

// Start starts the process. It does nothing if the process was started before and has not been
// killed since.
func (m *Machine) Start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process != nil {
		return
	}
	m.process = m.start()
	m.logs = append(m.logs, m.process.LogFile())
	m.lab.Cleanup(func() { // runs before the cleanup of the process, which would use SIGTERM
		if err := m.Kill(); err != nil {
			m.lab.Error(err)
		}
	})
}

// Logs returns the paths of the log files of all processes that the machine has run.
func (m *Machine) Logs() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.logs)
}

// Kill kills the process and its children with SIGKILL, and waits until all of them have ended.
//
// Kill first stops all of them with SIGSTOP, because they have to end at the same time, as in a
// crash of the machine. If the main process of Postgres died first, its children would stop waiting
// for the standby. For a moment, readers would see transactions that a fail-over then loses.
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

// PID returns the ID of the process, or 0 if the process was killed or not started.
func (m *Machine) PID() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process == nil {
		return 0
	}
	return m.process.PID()
}

// Pause stops the process and its children with SIGSTOP until Continue is called.
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

// signalMain sends a signal to the process, but not to its children. It does nothing if the process
// was killed.
func (m *Machine) signalMain(s syscall.Signal) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process == nil {
		return nil
	}
	return syscall.Kill(m.process.PID(), s)
}

// signalWithChildren sends a signal to a process and its children, and returns their IDs.
func signalWithChildren(pid int, s syscall.Signal) ([]int, error) {
	all, err := processAndChildren(pid)
	for _, pid := range all {
		_ = syscall.Kill(pid, s) // the process may have ended
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
	errKilled = errors.New("the process was killed")
	errExited = errors.New("the process exited")
)

// running returns nil if the process is running, errKilled if it was killed or not started, and
// errExited if it exited for another reason.
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

// Supervise restarts the process if it exited without being killed by the test. It reports whether
// it restarted the process.
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

// processAndChildren returns the IDs of a process and its children. The first element is the
// process itself.
func processAndChildren(parent int) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	all := []int{parent}
	for _, path := range stats {
		content, err := os.ReadFile(path)
		if err != nil {
			continue // the process has ended
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

// awaitExit waits until killed processes have ended and the kernel has closed their files and
// sockets.
func awaitExit(all []int) error {
	deadline := time.Now().Add(stepTimeout)
	for _, pid := range all {
		for alive(pid) {
			if time.Now().After(deadline) {
				return fmt.Errorf("process %d did not end within %s", pid, stepTimeout)
			}
			<-time.After(time.Millisecond)
		}
	}
	return nil
}

// handlesSignal reports whether a process has a handler for a signal.
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

// alive reports whether a process is running. A zombie is not.
func alive(pid int) bool {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(content), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}
