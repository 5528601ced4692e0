package ipvs_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	moby "github.com/moby/ipvs"
	"golang.org/x/sys/unix"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/dataplane/dataplanetest/netnstest"
	"portolan.dev/nodeagent/dataplane/ipvs"
	"portolan.dev/nodeagent/kerneltest"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/kittest"
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
				t.Cleanup(func() { w.RemoveForeign(t) })
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

// onlyOf checks that the kernel has the tables and virtual servers of one mode only, apart from virtual servers of
// another program.
func (w *agentWorld) onlyOf(mode string, theirs ...string) {
	w.t.Helper()
	there := w.inventory()
	for _, line := range theirs {
		if !there[line] {
			w.t.Errorf("%s has gone", line)
		}
	}
	wanted := map[string]bool{"table 2 portolan": mode != "userspace", "table 2 portolan-balancer": mode == "nftables"}
	for line, want := range wanted {
		if there[line] != want {
			w.t.Errorf("mode %s: %q is there: %t", mode, line, there[line])
		}
	}
	servers := 0
	for line := range there {
		isTheirs := func(t string) bool { return strings.HasPrefix(line, t) }
		if strings.HasPrefix(line, "virtual server ") && !slices.ContainsFunc(theirs, isTheirs) {
			servers++
		}
	}
	if (servers > 0) != (mode == "ipvs") {
		w.t.Errorf("mode %s: %d virtual servers or backends", mode, servers)
	}
}

// TestAgentLosesItsJournalUnderLoad replaces an agent by one without its folder while clients connect and use their
// connections. None may be lost.
func TestAgentLosesItsJournalUnderLoad(t *testing.T) {
	for _, mode := range []string{"ipvs", "nftables"} {
		t.Run(mode, func(t *testing.T) {
			w := newAgentWorld(t)
			at := fresh(t, w.Network)
			w.log.Put(service("web", at), endpoints("web", echo(t, w.Network), echo(t, w.Network)))
			agent := w.spawn(mode)
			w.applied(w.client())
			stop := w.load(at)
			for range 2 {
				agent.end(syscall.SIGKILL)
				w.loseFolder()
				agent = w.spawn(mode)
				if s := w.applied(w.client()); len(s.GetFailures()) > 0 {
					t.Errorf("status %v", s)
				}
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
			agent.end(syscall.SIGTERM)
			w.cleanup()
		})
	}
}

// TestAgentIsKilledWhileItTakesOver starts an agent in another mode, without a journal, and kills it as soon as a
// certain file or table has come or gone: wherever it was, the agent after it serves the clients and leaves nothing of
// the former mode.
func TestAgentIsKilledWhileItTakesOver(t *testing.T) {
	exists := func(pattern string) func(*agentWorld) bool {
		return func(w *agentWorld) bool {
			found, err := filepath.Glob(filepath.Join(w.cfg.DataDir, pattern))
			return err == nil && len(found) > 0
		}
	}
	line := func(start string, there bool) func(*agentWorld) bool {
		return func(w *agentWorld) bool {
			lines, err := netnstest.Inventory(w.Node)
			if err != nil { // it changes all the time
				return false
			}
			for l := range lines {
				if strings.HasPrefix(l, start) {
					return there
				}
			}
			return !there
		}
	}
	for name, c := range map[string]struct {
		before, after string
		reached       func(*agentWorld) bool
	}{
		"journal of the former mode": {"nftables", "ipvs", exists("nftables.journal")},
		"journal of the next mode":   {"nftables", "ipvs", exists("ipvs.journal")},
		"servers of the next mode":   {"nftables", "ipvs", line("virtual server ", true)},
		"tables of the former mode":  {"nftables", "ipvs", line("table 2 portolan-balancer", false)},
		"servers of the former mode": {"ipvs", "nftables", line("virtual server ", false)},
		"rules, to userspace":        {"nftables", "userspace", line("table 2 portolan-balancer", false)},
		"routes, from userspace":     {"userspace", "nftables", line("table 2 portolan", true)},
		"journal, to userspace":      {"ipvs", "userspace", exists("ipvs.journal")},
		"sockets, to userspace":      {"ipvs", "userspace", exists("userspace.journal")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newAgentWorld(t)
			before := w.inventory()
			at := fresh(t, w.Network)
			w.log.Put(service("web", at), endpoints("web", echo(t, w.Network)))
			agent := w.spawn(c.before)
			w.applied(w.client())
			agent.end(syscall.SIGKILL)
			w.loseFolder()
			agent = w.spawn(c.after)
			kittest.Eventually(t, name, func() error {
				if !c.reached(w) {
					return errors.New("not yet")
				}
				return nil
			})
			agent.end(syscall.SIGKILL)
			agent = w.spawn(c.after)
			if s := w.applied(w.client()); s.GetProxyMode() != c.after || len(s.GetFailures()) > 0 {
				t.Errorf("status %v", s)
			}
			w.served(at)
			w.onlyOf(c.after)
			agent.end(syscall.SIGTERM)
			w.cleanup()
			if wrong := netnstest.Differences(before, w.inventory()); len(wrong) > 0 {
				t.Errorf("after the cleanup: %s", strings.Join(wrong, "; "))
			}
		})
	}
}

// TestLastResortOfAuto checks that the mode auto serves virtual addresses of both families on a kernel that has neither
// IPVS nor nftables, and that an agent that stops leaves nothing.
func TestLastResortOfAuto(t *testing.T) {
	w := newAgentWorld(t)
	before := w.inventory()
	loaded := kerneltest.WithoutModules(t, "nft_numgen",
		"ip_vs_mh", "ip_vs_nq", "ip_vs_sed", "ip_vs_sh", "ip_vs_fo", "ip_vs_dh", "ip_vs_wlc", "ip_vs_lc", "ip_vs_wrr", "ip_vs_rr", "ip_vs")
	defer func() {
		loaded()
		if err := ipvs.Reloaded(); err != nil {
			t.Error(err)
		}
	}()
	v4 := fresh(t, w.Network)
	v6 := w.Frontend(t, plan.ClusterIP, plan.TCP, true)
	w.log.Put(service("web", v4), endpoints("web", echo(t, w.Network)))
	lis, _ := w.Listen(t, plan.TCP, true)
	serve(t, lis)
	w.log.Put(service("web6", v6), endpoints6("web6", lis.Addr().(*net.TCPAddr).AddrPort()))
	agent := w.spawn("auto")
	s := w.applied(w.client())
	if s.GetProxyMode() != "userspace" || len(s.GetFailures()) > 0 || !strings.Contains(s.GetFallbackReason(), "nftables does not work here") {
		t.Errorf("status %v", s)
	}
	w.served(v4, v6)
	agent.end(syscall.SIGTERM)
	if wrong := netnstest.Differences(before, w.inventory()); len(wrong) > 0 {
		t.Errorf("after the end of the agent: %s", strings.Join(wrong, "; "))
	}
}

// endpoints6 returns the slice of a service's backends in IPv6.
func endpoints6(service string, at ...netip.AddrPort) *corev1.EndpointSlice {
	slice := endpoints(service, at...)
	slice.AddressType = corev1.AddressType_ADDRESS_TYPE_IPV6
	return slice
}
