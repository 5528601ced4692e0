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

// CleanUp kills the node's agent and has nodeagent cleanup take out what the agent has left.
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

// Changes returns what the node's namespace has more or less than before its first agent.
func (n *Node) Changes() ([]string, error) {
	now, err := state(n.Namespace)
	var changes []string
	for thing := range now {
		if !n.before[thing] {
			changes = append(changes, "more: "+thing)
		}
	}
	for thing := range n.before {
		if !now[thing] {
			changes = append(changes, "less: "+thing)
		}
	}
	slices.Sort(changes)
	return changes, err
}

// state lists what forwarding in a namespace depends on, and its settings.
func state(ns *topology.Namespace) (map[string]bool, error) {
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

// kept are the settings that nodeagent cleanup leaves as agents made them, since others may rely on them, and those
// that count.
var kept = []string{"/proc/sys/net/netfilter/nf_conntrack_", "/proc/sys/net/nf_conntrack_", "/proc/sys/net/ipv4/vs/"}

// sysctls returns the settings of the calling thread's namespace that a cleanup puts back, or that no agent may change.
func sysctls() (map[string]bool, error) {
	all := map[string]bool{}
	err := filepath.WalkDir("/proc/sys/net", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || slices.ContainsFunc(kept, func(k string) bool { return strings.HasPrefix(path, k) }) {
			return err
		}
		if value, err := os.ReadFile(path); err == nil { // some can only be written
			all["setting "+strings.TrimPrefix(path, "/proc/sys/")+" of "+strings.TrimSpace(string(value))] = true
		}
		return nil
	})
	return all, err
}
