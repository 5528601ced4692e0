package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
)

// leftovers finds resources that a lab failed to release: processes and threads in its namespaces,
// temporary files, mounts, devices and packet filters.
type leftovers struct {
	// scratch is the folder for temporary files of tests and daemons.
	scratch string
	// machines are the names of machines by the inodes of their namespaces. The namespace
	// identifies orphaned processes, too, such as a child of Postgres' main process after the main
	// process was killed.
	machines map[uint64]string
	// baseline is the result of listResources before the lab was started.
	baseline []string
}

// failOnLeftovers makes the test fail if the lab leaves resources behind. Install calls it first,
// so that its cleanup runs last.
func (l *Lab) failOnLeftovers() {
	l.Helper()
	scratch, err := os.MkdirTemp("/tmp", "lab") // paths of Postgres' sockets have at most 107 bytes
	if err != nil {
		l.Fatal(err)
	}
	before, err := listResources()
	if err := errors.Join(err, os.Chmod(scratch, 0o755)); err != nil {
		l.Fatal(err)
	}
	l.leftovers = leftovers{scratch: scratch, machines: map[uint64]string{}, baseline: before}
	l.Cleanup(func() {
		// Threads end a little later than the goroutines that they ran.
		if err := eventually(l.leftovers.check); err != nil {
			l.Errorf("resources left behind by the lab: %v", err)
		}
		_ = os.RemoveAll(scratch)
	})
	l.Setenv("TMPDIR", scratch)
}

// addNamespace creates a machine's namespace, and registers it so that leftovers are found in it.
func (l *Lab) addNamespace(m *Machine) {
	l.Helper()
	m.Namespace, m.Addresses = l.Network.Attach(m.Name)
	info, err := os.Stat(m.Namespace.Path)
	if err != nil {
		l.Fatal(err)
	}
	l.leftovers.machines[inode(info)] = m.Name
}

func inode(info os.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Ino
	}
	return 0
}

// check returns an error that lists all leftovers.
func (r *leftovers) check() error {
	now, err := listResources()
	if err != nil {
		return err
	}
	left := slices.DeleteFunc(now, func(resource string) bool { return slices.Contains(r.baseline, resource) })
	files, err := os.ReadDir(r.scratch)
	for _, f := range files {
		left = append(left, "file "+filepath.Join(r.scratch, f.Name()))
	}
	left = append(left, r.threads()...)
	if len(left) > 0 {
		err = errors.Join(err, errors.New(strings.Join(left, "\n")))
	}
	return err
}

// threads returns descriptions of all threads that are in a namespace of the lab.
func (r *leftovers) threads() []string {
	var left []string
	all, _ := filepath.Glob("/proc/[0-9]*/task/[0-9]*") // the pattern is well-formed
	for _, thread := range all {
		info, err := os.Stat(filepath.Join(thread, "ns/net"))
		if err != nil {
			continue // the thread has ended
		}
		if machine, ours := r.machines[inode(info)]; ours {
			name, _ := os.ReadFile(filepath.Join(thread, "comm")) // only for the message
			left = append(left, fmt.Sprintf("thread %s (%s) of %s", thread, strings.TrimSpace(string(name)), machine))
		}
	}
	return left
}

// listResources returns descriptions of all mounts, network devices and nftables tables of the test
// process.
func listResources() ([]string, error) {
	var all []string
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 4 { // number, parent, device, root, mount point
			all = append(all, "mount "+fields[4])
		}
	}
	links, err := netlink.LinkList()
	if err != nil {
		return nil, err
	}
	for _, link := range links {
		all = append(all, "device "+link.Attrs().Name)
	}
	tables, err := exec.Command("nft", "list", "tables").Output()
	for table := range strings.Lines(string(tables)) {
		all = append(all, strings.TrimSpace(table))
	}
	return all, err
}
