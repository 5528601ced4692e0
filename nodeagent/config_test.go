package nodeagent_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"portolan.dev/nodeagent"
	"portolan.dev/services/kit/config"
)

func defaults() nodeagent.Config {
	var cfg nodeagent.Config
	config.Defaults(&cfg)
	return cfg
}

func TestDefaultsAreValid(t *testing.T) {
	cfg := defaults()
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
	if cfg.Addr != "127.0.0.1:7404" || cfg.HTTPAddr != "127.0.0.1:7504" {
		t.Errorf("addresses %s and %s", cfg.Addr, cfg.HTTPAddr)
	}
}

func TestEveryMistakeIsReported(t *testing.T) {
	cfg := defaults()
	cfg.NodeAddresses = []string{"10.0.0.1", "nonsense", "0.0.0.0"}
	cfg.NodeLabels = []string{"a=b", "=c", "d"}
	cfg.ProxyMode, cfg.Scheduler = "magic", "wrr"
	cfg.DrainTimeout, cfg.HeartbeatInterval = -1, 0
	cfg.IPVSTCPTimeout, cfg.IPVSTCPFinTimeout, cfg.IPVSUDPTimeout = time.Millisecond, -time.Second, 1000*time.Hour
	cfg.ConntrackEstablished, cfg.ConntrackCloseWait = -1, 1
	cfg.ConntrackMaxPerCore, cfg.ConntrackMin, cfg.TrafficMetrics = -1, 1<<30, -1
	err := cfg.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`node-addresses: "nonsense"`, `node-addresses: "0.0.0.0"`, `node-labels: "=c"`, `node-labels: "d"`,
		"proxy-mode", "scheduler", "drain-timeout", "heartbeat-interval",
		"ipvs-tcp-timeout: 1ms", "ipvs-tcpfin-timeout: -1s", "ipvs-udp-timeout: 1000h",
		"conntrack-tcp-timeout-established", "conntrack-tcp-timeout-close-wait", "conntrack-max-per-core: -1", "conntrack-min: 1073741824",
		"traffic-metrics",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("nothing about %s in %q", want, err)
		}
	}
}

// TestAddresses checks which addresses are in the Node's status, which ones serve node ports, and
// which sources are internal.
func TestAddresses(t *testing.T) {
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
		{name: "configured", node: []string{"127.0.0.1"}, wantNode: "[127.0.0.1]", wantP: "[127.0.0.1]"},
		{name: "node ports by CIDR", ports: []string{"10.0.0.0/8", "2001:db8::/32"}, wantNode: "[192.0.2.1 10.0.0.1 2001:db8::1]", wantP: "[10.0.0.1 2001:db8::1]"},
		{name: "loopback only", ports: []string{"127.0.0.0/8"}, wantNode: "[192.0.2.1 10.0.0.1 2001:db8::1]", wantP: "[127.0.0.1]"},
		{name: "all of IPv4", ports: []string{"0.0.0.0/0"}, wantNode: "[192.0.2.1 10.0.0.1 2001:db8::1]", wantP: "[10.0.0.1 127.0.0.1 192.0.2.1]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := defaults()
			cfg.NodeAddresses = tc.node
			cfg.PodCIDR = []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}
			for _, p := range tc.ports {
				cfg.NodePortAddresses = append(cfg.NodePortAddresses, netip.MustParsePrefix(p))
			}
			node, ports, sources := cfg.Assign(local)
			if fmt.Sprint(node) != tc.wantNode || fmt.Sprint(ports) != tc.wantP {
				t.Errorf("node %v, node ports %v", node, ports)
			}
			for addr, inside := range map[string]bool{
				"127.0.0.1": true, "127.9.9.9": true, "::1": true, "10.0.0.1": true, "2001:db8::1": true, "10.1.2.3": true,
				"10.0.0.2": false, "192.0.2.2": false, "2001:db8::2": false,
			} {
				if got := sources.Inside(netip.MustParseAddr(addr)); got != inside {
					t.Errorf("%s inside: %t", addr, got)
				}
			}
		})
	}
}
