package lab

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/portolan/e2e/labtest"
)

// TestChanges checks that Changes reports each kind of object that an agent may add to a namespace
// or remove from it.
func TestChanges(t *testing.T) {
	labtest.Need(t)
	for _, c := range []struct{ name, do, want string }{
		{"nothing", "true", "[]"},
		{"a table", "nft add table ip portolan", "[more: table 2 portolan]"},
		{"a chain", "nft add chain ip theirs more", "[more: table 2 theirs, chain more]"},
		{"a deleted table", "nft delete table ip theirs", "[less: table 2 theirs]"},
		{"a route", "ip route add local 10.96.0.0/16 dev lo table local", "more: route of type 2 to 10.96.0.0/16"},
		{"a route of IPv6", "ip -6 route add local fd00:96::/112 dev lo table local", "more: route of type 2 to fd00:96::/112"},
		{"an address", "ip addr add 10.96.0.1/32 dev lo", "more: address 10.96.0.1/32"},
		{"a rule of routing", "ip rule add from 10.96.0.0/16 table 77", "more: rule"},
		{"a setting", "echo 1 > /proc/sys/net/ipv4/conf/all/arp_ignore",
			"[less: setting net/ipv4/conf/all/arp_ignore of 0 more: setting net/ipv4/conf/all/arp_ignore of 1]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := &Node{Machine: &Machine{Namespace: topology.New(t, "node")}}
			shell := func(script string) {
				t.Helper()
				must(t, n.Namespace.Do(func() error {
					if text, err := exec.Command("sh", "-ec", script).CombinedOutput(); err != nil {
						return fmt.Errorf("%w: %s", err, text)
					}
					return nil
				}))
			}
			shell("nft add table ip theirs")
			var err error
			n.initialState, err = namespaceState(n.Namespace)
			must(t, err)
			shell(c.do)
			changes, err := n.Changes()
			must(t, err)
			if got := fmt.Sprint(changes); !strings.Contains(got, c.want) {
				t.Errorf("changes %s, want %s", got, c.want)
			}
		})
	}
}
