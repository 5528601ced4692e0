package ipvs_test

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/dataplane/dataplanetest/netnstest"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/kittest"
)

// withoutRights makes a process run as another user than root.
func withoutRights(c *exec.Cmd) {
	const nobody = 65534
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
}

// share lets agents of other users write into the agent's folder.
func (w *agentWorld) share() {
	w.t.Helper()
	for _, dir := range []string{w.cfg.DataDir, filepath.Dir(w.cfg.DataDir)} {
		if err := os.Chmod(dir, 0o777); err != nil {
			w.t.Fatal(err)
		}
	}
}

// failure returns the failure of a status with these words in its step, error or remedy.
func failure(s *nodeagentv1.GetStatusResponse, words ...string) bool {
	return slices.ContainsFunc(s.GetFailures(), func(f *nodeagentv1.StepFailure) bool {
		text := f.GetStep() + ": " + f.GetError() + "; " + f.GetRemedy()
		return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
	})
}

// TestUserspaceWithoutRights checks that an agent that may not change routes names the commands that make the virtual
// addresses local, and that it serves them, of both families, once an operator has carried the commands out.
func TestUserspaceWithoutRights(t *testing.T) {
	w := newAgentWorld(t)
	w.share()
	v4 := fresh(t, w.Network)
	v6 := w.Frontend(t, plan.ClusterIP, plan.TCP, true)
	lis, _ := w.Listen(t, plan.TCP, true)
	serve(t, lis)
	high := func(at netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(at.Addr(), 8080) } // needs no privilege
	v4, v6 = high(v4), high(v6)
	w.log.Put(service("web", v4), endpoints("web", echo(t, w.Network)), service("web6", v6), endpoints6("web6", lis.Addr().(*net.TCPAddr).AddrPort()))
	w.spawn("userspace", withoutRights)
	s := w.applied(w.client())
	for _, command := range []string{"ip route add local 10.96.0.0/16 dev lo", "ip -6 route add local fd00:96::/112 dev lo"} {
		if !failure(s, "not local to this machine", "CAP_NET_ADMIN", command) {
			t.Errorf("no failure names %q: %v", command, s)
		}
	}
	if e := w.event("FailedToProgram"); !strings.Contains(e.GetMessage(), "ip route add local") || e.GetRegarding().GetKind() != "Node" {
		t.Errorf("event %v", e)
	}
	for _, r := range netnstest.Virtual {
		w.localRoute(r)
	}
	kittest.Eventually(t, "the services", func() error {
		for _, at := range []netip.AddrPort{v4, v6} {
			if err := w.reach(dataplanetest.Outside, at); err != nil {
				return err
			}
		}
		return nil
	})
	w.served(v4, v6)
}

// TestStateThatCannotBeRemoved checks that an agent in userspace mode reports the state of an earlier agent that it may
// not remove: with its journal, and without.
func TestStateThatCannotBeRemoved(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprint("journal lost ", lost), func(t *testing.T) { stateThatCannotBeRemoved(t, lost) })
	}
}

func stateThatCannotBeRemoved(t *testing.T, lost bool) {
	w := newAgentWorld(t)
	w.share()
	at := fresh(t, w.Network)
	w.log.Put(service("web", at), endpoints("web", echo(t, w.Network)))
	agent := w.spawn("nftables")
	w.applied(w.client())
	agent.end(syscall.SIGKILL)
	if lost {
		w.loseFolder()
	}
	agent = w.spawn("userspace", withoutRights)
	if s := w.applied(w.client()); !failure(s, "remove what an earlier agent has left", "operation not permitted", "nodeagent cleanup") {
		t.Errorf("status %v", s)
	}
	agent.end(syscall.SIGTERM)
	w.cleanup()
}

// localRoute makes a range local until the end of the test, like the command that the agent names.
func (w *agentWorld) localRoute(r netip.Prefix) {
	w.t.Helper()
	change := func(fn func(*netlink.Route) error) {
		err := w.Node.Do(func() error {
			lo, err := netlink.LinkByName("lo")
			if err != nil {
				return err
			}
			route := &netlink.Route{
				Dst: &net.IPNet{IP: r.Addr().AsSlice(), Mask: net.CIDRMask(r.Bits(), r.Addr().BitLen())}, LinkIndex: lo.Attrs().Index,
				Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL,
			}
			if r.Addr().Is4() {
				route.Scope = netlink.SCOPE_HOST
			}
			return fn(route)
		})
		if err != nil {
			w.t.Error(err)
		}
	}
	change(netlink.RouteAdd)
	w.t.Cleanup(func() { change(netlink.RouteDel) })
}

// TestSecondAgent checks that an agent in userspace mode leaves the state of another one alone that still runs in the
// kernel, although it has no journal of that state.
func TestSecondAgent(t *testing.T) {
	for _, mode := range []string{"ipvs", "nftables"} {
		t.Run(mode, func(t *testing.T) {
			w := newAgentWorld(t)
			at := fresh(t, w.Network)
			w.log.Put(service("web", at), endpoints("web", echo(t, w.Network)))
			first := w.spawn(mode)
			w.applied(w.client())
			w.served(at)
			tables := func() map[string]bool { // without the sets that packets fill
				there := w.inventory()
				maps.DeleteFunc(there, func(line string, _ bool) bool {
					return strings.Contains(line, "set loop") || strings.Contains(line, "set turn")
				})
				return there
			}
			before := tables()
			port, own := w.cfg.Addr, kittest.Listen(t)
			own.Close()
			w.cfg.Addr = own.Addr().String()
			second := w.spawn("userspace", func(c *exec.Cmd) { c.Args = append(c.Args, "-node-name=second", "-data-dir="+t.TempDir()) })
			if s := w.applied(w.client()); len(s.GetFailures()) > 0 {
				t.Errorf("status %v", s)
			}
			w.served(at)
			second.end(syscall.SIGTERM)
			if wrong := netnstest.Differences(before, tables()); len(wrong) > 0 {
				t.Errorf("after the second agent: %s", strings.Join(wrong, "; "))
			}
			w.served(at)
			w.cfg.Addr = port
			first.end(syscall.SIGTERM)
			w.cleanup()
		})
	}
}
