package ipvs_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	moby "github.com/moby/ipvs"
	"golang.org/x/sys/unix"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/dataplane/dataplanetest/netnstest"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/object"
)

// modes are the modes that an agent can have in the guest.
var modes = []string{"ipvs", "nftables", "userspace"}

// TestModeChangesWithoutJournal kills an agent, removes its journal with everything else in its folder, and
// starts an agent in each mode. Clients must be served, nothing of the former mode may remain, and everything
// of other programs must remain: a table, a route, an address, and a virtual server among the cluster IPs.
func TestModeChangesWithoutJournal(t *testing.T) {
	for _, before := range modes {
		for _, after := range modes {
			t.Run(before+" to "+after, func(t *testing.T) {
				w := newAgentWorld(t)
				w.Foreign(t)
				theirs := w.foreignServer()
				others := w.inventory()
				web, gone := fresh(t, w.Network), fresh(t, w.Network)
				external := w.Frontend(t, plan.ExternalIP, plan.TCP, false)
				w.log.Put(service("web", web, func(s *corev1.Service) { s.Spec.ExternalIps = []string{external.Addr().String()} }),
					endpoints("web", echo(t, w.Network)), service("gone", gone), endpoints("gone", echo(t, w.Network)))
				agent := w.spawn(before)
				w.applied(w.client())
				w.served(web, external, gone)
				agent.end(syscall.SIGKILL)
				w.loseFolder()
				w.log.Delete(object.Key{Kind: "Service", Namespace: "default", Name: "gone"})

				agent = w.spawn(after)
				if s := w.applied(w.client()); s.GetProxyMode() != after || len(s.GetFailures()) > 0 {
					t.Errorf("status %v", s)
				}
				w.served(web, external)
				if err := w.reach(dataplanetest.Inside, gone); err == nil {
					t.Error("a service that was deleted in the meantime is served")
				}
				w.onlyOf(after, theirs)
				agent.end(syscall.SIGTERM)
				w.cleanup(theirs)
				if wrong := netnstest.Differences(others, w.inventory()); len(wrong) > 0 {
					t.Errorf("after the cleanup: %s", strings.Join(wrong, "; "))
				}
			})
		}
	}
}

// inventory returns everything in the node's namespace that forwarding depends on.
func (w *agentWorld) inventory() map[string]bool {
	w.t.Helper()
	lines, err := netnstest.Inventory(w.Node)
	if err != nil {
		w.t.Fatal(err)
	}
	return lines
}

// foreignServer makes a virtual server of another program among the cluster IPs. It returns the line of the
// server in the inventory.
func (w *agentWorld) foreignServer() string {
	w.t.Helper()
	at := plan.Frontend{Addr: fresh(w.t, w.Network), Protocol: plan.TCP}
	before := w.inventory()
	occupy(w.t, w.Network, at)
	w.t.Cleanup(func() {
		handle, err := moby.New("")
		if err == nil {
			defer handle.Close()
			err = handle.DelService(&moby.Service{
				Address: at.Addr.Addr().AsSlice(), Port: at.Addr.Port(), Protocol: unix.IPPROTO_TCP, AddressFamily: unix.AF_INET, Netmask: 0xffffffff,
			})
		}
		if err != nil {
			w.t.Error(err)
		}
	})
	for line := range w.inventory() {
		if !before[line] && !strings.Contains(line, "backend") {
			return line
		}
	}
	w.t.Fatal("there is no virtual server of another program")
	return ""
}

// served checks that clients everywhere are served.
func (w *agentWorld) served(at ...netip.AddrPort) {
	w.t.Helper()
	for _, a := range at {
		for _, from := range []dataplanetest.ClientLocation{dataplanetest.Inside, dataplanetest.Node, dataplanetest.Outside} {
			if err := w.reach(from, a); err != nil {
				w.t.Errorf("%s from %s: %v", a, from, err)
			}
		}
	}
}

// loseFolder removes the agent's folder.
func (w *agentWorld) loseFolder() {
	w.t.Helper()
	found, err := filepath.Glob(filepath.Join(w.cfg.DataDir, "*"))
	if err != nil || len(found) == 0 {
		w.t.Fatalf("the agent has no files: %v, %v", found, err)
	}
	for _, path := range found {
		if err := os.RemoveAll(path); err != nil {
			w.t.Fatal(err)
		}
	}
}

// onlyOf checks that the kernel has the tables and virtual servers of one mode only, apart from a virtual server
// of another program.
func (w *agentWorld) onlyOf(mode, theirs string) {
	w.t.Helper()
	there := w.inventory()
	if !there[theirs] {
		w.t.Errorf("%s has gone", theirs)
	}
	wanted := map[string]bool{"table 2 portolan": mode != "userspace", "table 2 portolan-balancer": mode == "nftables"}
	for line, want := range wanted {
		if there[line] != want {
			w.t.Errorf("mode %s: %q is there: %t", mode, line, there[line])
		}
	}
	servers := 0
	for line := range there {
		if strings.HasPrefix(line, "virtual server ") && !strings.HasPrefix(line, theirs) {
			servers++
		}
	}
	if (servers > 0) != (mode == "ipvs") {
		w.t.Errorf("mode %s: %d virtual servers or backends", mode, servers)
	}
}
