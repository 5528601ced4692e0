package addresses_test

import (
	"fmt"
	"net/netip"
	"testing"

	"portolan.dev/nodeagent/internal/addresses"
)

// TestAssign checks which addresses are in the Node's status, which ones serve node ports, and
// which sources are internal.
func TestAssign(t *testing.T) {
	local := []netip.Addr{
		netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("10.0.0.1"),
		netip.MustParseAddr("::1"), netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("fe80::1"),
	}
	for _, tc := range []struct {
		name            string
		node            []string
		ports           []string
		wantNode, wantP string
	}{
		{
			name: "defaults", wantNode: "[192.0.2.1 10.0.0.1 2001:db8::1]",
			wantP: "[10.0.0.1 127.0.0.1 192.0.2.1 ::1 2001:db8::1]",
		},
		{name: "configured", node: []string{"10.0.0.1"}, wantNode: "[10.0.0.1]", wantP: "[10.0.0.1 127.0.0.1 ::1]"},
		{name: "configured on loopback", node: []string{"127.0.0.2"}, wantNode: "[127.0.0.2]", wantP: "[127.0.0.2]"},
		{name: "configured, node ports by CIDR", node: []string{"10.0.0.1"}, ports: []string{"10.0.0.0/8"}, wantNode: "[10.0.0.1]", wantP: "[10.0.0.1]"},
		{name: "node ports by CIDR", ports: []string{"10.0.0.0/8", "2001:db8::/32"}, wantNode: "[192.0.2.1 10.0.0.1 2001:db8::1]", wantP: "[10.0.0.1 2001:db8::1]"},
		{name: "loopback only", ports: []string{"127.0.0.0/8"}, wantNode: "[192.0.2.1 10.0.0.1 2001:db8::1]", wantP: "[127.0.0.1]"},
		{name: "all of IPv4", ports: []string{"0.0.0.0/0"}, wantNode: "[192.0.2.1 10.0.0.1 2001:db8::1]", wantP: "[10.0.0.1 127.0.0.1 192.0.2.1]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rules := addresses.Rules{Pods: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}
			for _, addr := range tc.node {
				rules.Node = append(rules.Node, netip.MustParseAddr(addr))
			}
			for _, p := range tc.ports {
				rules.NodePorts = append(rules.NodePorts, netip.MustParsePrefix(p))
			}
			roles := rules.Assign(local)
			if fmt.Sprint(roles.Node) != tc.wantNode || fmt.Sprint(roles.NodePorts) != tc.wantP {
				t.Errorf("node %v, node ports %v", roles.Node, roles.NodePorts)
			}
			for addr, inside := range map[string]bool{
				"127.0.0.1": true, "127.9.9.9": true, "::1": true, "10.0.0.1": true, "2001:db8::1": true, "10.1.2.3": true,
				"10.0.0.2": false, "192.0.2.2": false, "2001:db8::2": false,
			} {
				if got := roles.Sources.IsInternal(netip.MustParseAddr(addr)); got != inside {
					t.Errorf("%s inside: %t", addr, got)
				}
			}
		})
	}
}
