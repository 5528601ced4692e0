package foreign

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"portolan.dev/faults/lab"
	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/dataplane/netfilter"
	plane "portolan.dev/nodeagent/dataplane/nftables"
	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/portolan/e2e/churn/check"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kit/kittest"
)

func TestMain(m *testing.M) { lab.Main(m) }

// TestRulesBesideDataPlane checks that foreign rules can be read next to the rules of a data plane.
// The command that netfilter.ListTables recommends must work there. A data plane that starts, forwards and cleans up must not change foreign rules.
func TestRulesBesideDataPlane(t *testing.T) {
	labtest.Need(t)
	if err := plane.Probe(""); err != nil {
		t.Skipf("allowed: %v", err)
	}
	ns := topology.New(t, "node")
	r := &Rules{nodes: map[string]*topology.Namespace{"node": ns}, saved: map[string]map[string]string{}}
	p, err := plane.New(kernel.Options{
		Log: kittest.Logger(t), Namespace: ns.Path, Journal: filepath.Join(t.TempDir(), "journal"),
		ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(ns.Do(addRules), r.saveState()); err != nil {
		t.Fatal(err)
	}
	v := &plan.VirtualServer{
		Key:   plan.Key{Frontend: plan.Frontend{Addr: netip.MustParseAddrPort("10.96.0.1:80"), Protocol: plan.TCP}},
		Reals: []plan.RealServer{{Addr: netip.MustParseAddrPort("10.1.0.1:8080"), Weight: 1}},
	}
	_, command, _ := strings.Cut(netfilter.ListTables, ": ")
	for _, do := range []func() error{
		func() error {
			if failed := p.Apply(t.Context(), dataplanetest.Changes(v)); len(failed) > 0 {
				return failed[0].Err
			}
			return nil
		},
		func() error {
			return ns.Do(func() error { return checkListing(command, "10.96.0.1", "10.1.0.1") })
		},
		p.Cleanup, p.Close,
	} {
		findings, err := []check.Finding(nil), do()
		if err == nil {
			findings, err = r.Check(t.Context(), nil)
		}
		if err != nil || len(findings) > 0 {
			t.Errorf("%v, %v", findings, err)
		}
	}
}

// checkListing returns an error unless the command succeeds and prints the given words.
func checkListing(command string, words ...string) error {
	text, err := exec.Command("sh", "-ec", command).CombinedOutput()
	for _, w := range words {
		if err == nil && !strings.Contains(string(text), w) {
			err = fmt.Errorf("no %s", w)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s", command, err, text)
	}
	return nil
}

// TestRules checks that each kind of change of foreign rules is found.
func TestRules(t *testing.T) {
	labtest.Need(t)
	for _, c := range []struct {
		name, do, want string // do is a shell command that changes rules
	}{
		{"nothing", "true", ""},
		{"a table of an agent", "nft add table ip portolan && nft add table ip6 portolan-balancer", ""},
		{"a rule is added", "nft add rule inet portolan forward accept", "table inet portolan was changed"},
		{"an element is deleted", "nft 'delete element inet portolan-balancer servers { 192.0.2.1 . 80 }'", "table inet portolan-balancer was changed"},
		{"a table is deleted", "nft delete table ip6 portolan2", "table ip6 portolan2 was deleted"},
		{"a table is created again", "nft -s list table ip6 portolan2 > again && nft delete table ip6 portolan2 && nft -f again", "table ip6 portolan2 was changed"},
		{"everything is flushed", "nft flush ruleset", "table ip portolan-balancer2 was deleted"},
		{"a table is added", "nft add table ip portolan-new", "table ip portolan-new was added"},
		{"a route is deleted", "ip route del local 192.0.2.128/25 dev lo table local", "route was deleted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &Rules{nodes: map[string]*topology.Namespace{"node": topology.New(t, "node")}, saved: map[string]map[string]string{}}
			if err := r.nodes["node"].Do(addRules); err != nil {
				t.Fatal(err)
			}
			if err := r.saveState(); err != nil || len(r.saved["node"]) < 6 {
				t.Fatalf("%d tables and routes, %v", len(r.saved["node"]), err)
			}
			err := r.nodes["node"].Do(func() error {
				cmd := exec.Command("sh", "-c", c.do)
				cmd.Dir = t.TempDir()
				if text, err := cmd.CombinedOutput(); err != nil {
					return fmt.Errorf("%w: %s", err, text)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			findings, err := r.Check(t.Context(), nil)
			got := fmt.Sprint(findings)
			if err != nil || c.want == "" && len(findings) > 0 || !strings.Contains(got, c.want) {
				t.Errorf("found %s, %v, want %q", got, err, c.want)
			}
		})
	}
}
