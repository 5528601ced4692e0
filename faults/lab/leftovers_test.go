package lab

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/portolan/e2e/labtest"
)

// TestLeftovers checks that leftovers finds each kind of resource.
func TestLeftovers(t *testing.T) {
	labtest.Need(t)
	for _, c := range []struct {
		name string
		// leave creates a resource, and returns a function that releases it.
		leave func(t *testing.T, r *leftovers) (undo func() error)
		want  string
	}{
		{"a file", func(t *testing.T, r *leftovers) func() error {
			path := filepath.Join(r.scratch, "socket")
			must(t, os.WriteFile(path, nil, 0o600))
			return func() error { return os.Remove(path) }
		}, "socket"},
		{"a mount", func(t *testing.T, r *leftovers) func() error {
			dir := t.TempDir()
			must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"))
			return func() error { return unix.Unmount(dir, 0) }
		}, "mount "},
		{"a device", func(t *testing.T, r *leftovers) func() error {
			link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "left0"}, PeerName: "left1"}
			must(t, netlink.LinkAdd(link))
			return func() error { return netlink.LinkDel(link) }
		}, "device left0"},
		{"a packet filter", func(t *testing.T, r *leftovers) func() error {
			must(t, exec.Command("nft", "add table inet left").Run())
			return func() error { return exec.Command("nft", "delete table inet left").Run() }
		}, "table inet left"},
		{"a process", func(t *testing.T, r *leftovers) func() error {
			ns := topology.New(t, "left")
			info, err := os.Stat(ns.Path)
			must(t, err)
			r.machines[inode(info)] = "left"
			cmd := exec.Command("sleep", "1000")
			must(t, ns.Do(cmd.Start))
			return func() error {
				must(t, cmd.Process.Kill())
				_ = cmd.Wait() // it was killed
				return nil
			}
		}, "(sleep) of left"},
		{"a thread", func(t *testing.T, r *leftovers) func() error {
			ns := topology.New(t, "left")
			info, err := os.Stat(ns.Path)
			must(t, err)
			r.machines[inode(info)] = "left"
			status, release := make(chan error), make(chan error)
			go func() {
				status <- ns.Do(func() error {
					status <- nil // the thread is in the namespace
					return <-release
				})
			}()
			must(t, <-status)
			return func() error {
				close(release)
				return <-status
			}
		}, "of left"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &leftovers{scratch: t.TempDir(), machines: map[uint64]string{}}
			var err error
			r.baseline, err = listResources()
			must(t, err)
			must(t, r.check())
			undo := c.leave(t, r)
			if c.name == "a process" || c.name == "a thread" {
				r.baseline, err = listResources() // the namespace stays mounted until the test ends
				must(t, err)
			}
			if err := r.check(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("check returned %v, want an error with %q", err, c.want)
			}
			must(t, undo())
			must(t, eventually(r.check))
		})
	}
}
