package kernel_test

import (
	"strings"
	"testing"

	"portolan.dev/nodeagent/dataplane/kernelmode"
	"portolan.dev/nodeagent/kerneltest/topology"
)

// TestDoubtfulSettingsAreTold checks that settings that the plane does not change, but that may
// harm traffic, are reported with a remedy as long as they last.
func TestDoubtfulSettingsAreTold(t *testing.T) {
	p, _, ns, _ := newPlane(t, kernelmode.Tracking{})
	told := func(part string) string {
		for _, s := range p.Settings() {
			if strings.Contains(s.Name, part) {
				return s.String()
			}
		}
		return ""
	}
	topology.Connect(t, ns, topology.New(t, "peer"), nil, nil)
	for _, device := range []string{"all", "peer"} {
		ns.Sysctl(t, "net.ipv4.conf."+device+".rp_filter", "0")
	}
	for part, line := range map[string]string{"rp_filter": told("rp_filter"), "bridge-nf": told("bridge-nf")} {
		if line != "" {
			t.Errorf("%s is told of: %s", part, line)
		}
	}
	ns.Sysctl(t, "net.ipv4.conf.peer.rp_filter", "1")
	if got := told("rp_filter"); !strings.HasPrefix(got, "net.ipv4.conf.peer.rp_filter is 1: ") || !strings.Contains(got, "sysctl -w") {
		t.Errorf("told: %q", got)
	}
	ns.Sysctl(t, "net.ipv4.conf.all.rp_filter", "2")
	if got := told("rp_filter"); got != "" {
		t.Errorf("told, though it is loose: %q", got)
	}
	ns.Bridge(t, "bridge0")
	if got := told("bridge-nf"); !strings.Contains(got, "bridge0") && !strings.Contains(got, "peer") || !strings.Contains(got, "bridge-nf-call-iptables") {
		t.Errorf("told: %q", got)
	}
}
