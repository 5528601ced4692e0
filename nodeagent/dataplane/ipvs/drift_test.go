package ipvs_test

import (
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"portolan.dev/nodeagent/dataplane/dataplanetest/netnstest"
	"portolan.dev/nodeagent/kerneltest"
	"portolan.dev/nodeagent/plan"
)

// ipvsadm runs Debian's ipvsadm on the node, which changes and lists the kernel's tables without any code of
// ours.
func ipvsadm(t testing.TB, n *netnstest.Network, args ...string) string {
	t.Helper()
	kerneltest.NeedProgram(t, "ipvsadm")
	var text []byte
	err := n.Node.Do(func() (err error) {
		text, err = exec.Command("ipvsadm", args...).CombinedOutput()
		return err
	})
	if err != nil {
		t.Fatalf("ipvsadm %s: %v: %s", strings.Join(args, " "), err, text)
	}
	return string(text)
}

// attributes returns all attributes of virtual servers and backends that ipvsadm can list, except counters.
func attributes(t testing.TB, n *netnstest.Network) string {
	t.Helper()
	return ipvsadm(t, n, "-Sn") + ipvsadm(t, n, "-Ln", "--thresholds")
}

// alterations are changes of each attribute of a virtual server and its backend. SERVER and BACKEND stand for
// their addresses in the form of ipvsadm's options.
var alterations = []struct {
	name   string
	v6     bool
	server func(v *plan.VirtualServer) // nil: rr, and one backend
	change string
}{
	{name: "scheduler", change: "-E SERVER -s lc"},
	{name: "affinity switched on", change: "-E SERVER -s rr -p 100"},
	{name: "affinity switched off", server: sticky, change: "-E SERVER -s rr"},
	{name: "time of affinity", server: sticky, change: "-E SERVER -s rr -p 100"},
	{name: "mask of affinity", server: sticky, change: "-E SERVER -s rr -p 3600 -M 255.255.255.0"},
	{name: "mask of affinity in IPv6", v6: true, server: sticky, change: "-E SERVER -s rr -p 3600 -M 64"},
	{name: "flags of the scheduler", server: hashed, change: "-E SERVER -s sh -b sh-fallback,sh-port"},
	{name: "flag of no scheduler", change: "-E SERVER -s rr -b flag-3"},
	{name: "one packet", server: datagrams, change: "-E SERVER -s rr -o"},
	{name: "weight", change: "-e SERVER BACKEND -m -w 9"},
	{name: "direct routing", change: "-e SERVER BACKEND -g -w 1"},
	{name: "direct routing in IPv6", v6: true, change: "-e SERVER BACKEND -g -w 1"},
	{name: "direct routing without weight", server: unused, change: "-e SERVER BACKEND -g -w 0"},
	{name: "tunnel", change: "-e SERVER BACKEND -i -w 1"},
	{name: "upper threshold", change: "-e SERVER BACKEND -m -w 1 -x 1"},
	{name: "both thresholds", server: datagrams, change: "-e SERVER BACKEND -m -w 1 -x 5 -y 2"},
	{name: "another backend", change: "-a SERVER -r 198.51.100.9:8080 -m -w 1"},
	{name: "no backend", change: "-d SERVER BACKEND"},
	{name: "no server", server: sticky, change: "-D SERVER"},
}

func sticky(v *plan.VirtualServer) { v.Affinity = time.Hour }

func hashed(v *plan.VirtualServer) { v.Scheduler = plan.SourceHash }

func datagrams(v *plan.VirtualServer) { v.Protocol = plan.UDP }

func unused(v *plan.VirtualServer) { v.Reals[0].Weight = 0 }

// TestEveryAttributeIsRestored changes each attribute with ipvsadm, of one virtual server each. The audit, and
// the next process at its start, must find all the changes, and the plan must be in force afterwards.
func TestEveryAttributeIsRestored(t *testing.T) {
	n, p := start(t)
	var servers []*plan.VirtualServer
	var changes [][]string
	for i, a := range alterations {
		family, option := 0, "-t "
		if a.v6 {
			family = 1
		}
		// Clients and backends use the same port, because direct routing cannot change it.
		at := netip.AddrPortFrom(netnstest.Nth(netnstest.Virtual[family], uint32(700+i)), 8080)
		backend := netip.AddrPortFrom(netnstest.Nth(netnstest.Pods[family], uint32(700+i)), 8080)
		v := netnstest.Server(at, backend)
		if a.server != nil {
			a.server(v)
		}
		if v.Protocol == plan.UDP {
			option = "-u "
		}
		servers = append(servers, v)
		named := strings.NewReplacer("SERVER", option+at.String(), "BACKEND", "-r "+backend.String()).Replace(a.change)
		changes = append(changes, strings.Fields(named))
	}
	netnstest.Program(t, p, servers...)
	want, listed := netnstest.State(t, p), attributes(t, n)
	for _, finder := range []string{"audit", "restart"} {
		last := listed
		for i, change := range changes {
			ipvsadm(t, n, change...)
			if finder == "restart" { // the same changes as before
				continue
			}
			now := attributes(t, n)
			if now == last {
				t.Fatalf("%s: ipvsadm has changed nothing", alterations[i].name)
			}
			last = now
		}
		if finder == "restart" {
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			p = openPlane(t, n)
		}
		changed := plan.Changed(netnstest.State(t, p), want)
		for i, v := range servers {
			if !slices.ContainsFunc(changed.Frontends, func(f plan.FrontendServers) bool { return f.Frontend == v.Frontend }) {
				t.Errorf("%s: %s was not found by the %s", alterations[i].name, strings.Join(changes[i], " "), finder)
			}
		}
		netnstest.Apply(t, p, changed)
		if now := attributes(t, n); now != listed {
			t.Errorf("after the %s the kernel has\n%s\nand had\n%s", finder, now, listed)
		}
		if steps := plan.Diff(netnstest.State(t, p), want); len(steps) > 0 {
			t.Errorf("still different after the %s: %v", finder, steps)
		}
	}
}
