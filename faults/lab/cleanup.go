package lab

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"portolan.dev/nodeagent/dataplane/dataplanetest/netnstest"
	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/portolan/e2e/labtest"
)

// CleanUp kills the node's agent and runs nodeagent cleanup, which removes everything that the
// agent set up.
func (n *Node) CleanUp() error {
	n.lab.Helper()
	if err := n.Kill(); err != nil {
		return err
	}
	cmd := labtest.Command(n.lab, "nodeagent", append([]string{"cleanup"}, n.lab.flags(n.Machine)...))
	return n.Namespace.Do(func() error {
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: cleanup: %w: %s", n.Name, err, text)
		}
		return nil
	})
}

// Changes returns the differences between the current state of the node's namespace and its state
// before the first agent.
func (n *Node) Changes() ([]string, error) {
	now, err := namespaceState(n.Namespace)
	return netnstest.Differences(n.initialState, now), err
}

// namespaceState returns descriptions of a namespace's tables, routes, addresses and settings that
// affect forwarding.
func namespaceState(ns *topology.Namespace) (map[string]bool, error) {
	all, err := netnstest.Inventory(ns)
	if err != nil {
		return nil, err
	}
	err = ns.Do(func() error {
		found, err := sysctls()
		maps.Copy(all, found)
		return err
	})
	return all, err
}

// ignoredSettings are path prefixes of counters, and of settings that nodeagent cleanup does not
// restore because other programs may rely on them.
var ignoredSettings = []string{"/proc/sys/net/netfilter/nf_conntrack_", "/proc/sys/net/nf_conntrack_", "/proc/sys/net/ipv4/vs/"}

// sysctls returns the network settings of the calling thread's namespace, except for
// ignoredSettings.
func sysctls() (map[string]bool, error) {
	all := map[string]bool{}
	err := filepath.WalkDir("/proc/sys/net", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || slices.ContainsFunc(ignoredSettings, func(k string) bool { return strings.HasPrefix(path, k) }) {
			return err
		}
		if value, err := os.ReadFile(path); err == nil { // some settings can only be written
			all["setting "+strings.TrimPrefix(path, "/proc/sys/")+" of "+strings.TrimSpace(string(value))] = true
		}
		return nil
	})
	return all, err
}
