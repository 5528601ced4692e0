package parity

import (
	"fmt"
	"slices"
	"testing"

	"portolan.dev/portolan/e2e/labtest"
)

// description is a test of Kubernetes' list, with the name that it has there.
type description struct {
	name string
	test func(*scene)
}

// TestParity runs the descriptions that can share the installation at the same time, then those
// that disturb it.
func TestParity(t *testing.T) {
	i := install(t)
	t.Run("shared", func(t *testing.T) {
		shared := slices.Concat(
			services, serviceTypes, affinity, policies, terminating, loadBalancers, conntrack, networking, endpointSlices,
			dualStack, names, distribution, lifecycle,
		)
		for _, d := range shared {
			t.Run(d.name, func(t *testing.T) {
				t.Parallel()
				d.test(newScene(t, i))
			})
		}
	})
	for _, d := range disruptive {
		t.Run("alone/"+d.name, func(t *testing.T) { d.test(newScene(t, i)) })
	}
}

// install starts three nodes: two in zone a and one in zone b.
func install(t *testing.T) *labtest.Installation {
	t.Helper()
	labtest.Need(t)
	mode := labtest.Modes()[0]
	if mode == "userspace" {
		t.Skip("allowed: the kernel has neither IPVS nor nftables; without them most of the list is not possible")
	}
	// Node ports on loopback addresses are served only if they are configured.
	o := labtest.Options{Flags: map[string][]string{
		"nodeagent": {"-nodeport-addresses", "172.31.0.0/16,fd00:31::/32,127.0.0.0/8,::1/128"},
	}}
	for n, zone := range []string{"a", "a", "b"} {
		o.Nodes = append(o.Nodes, labtest.NodeOptions{Name: fmt.Sprintf("n%d", n+1), Zone: zone, ProxyMode: mode})
	}
	return labtest.Install(t, o)
}
