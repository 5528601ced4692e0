package nodeagent

import (
	"net/netip"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/plan"
)

// Plane is the data plane, for tests that interfere with it.
func (a *Agent) Plane() dataplane.Plane { return a.plane }

// APIAddr is where the agent listens.
func (a *Agent) APIAddr() string { return a.lis.Addr().String() }

// Assign gives addresses their roles.
func (c *Config) Assign(local []netip.Addr) (node, nodePorts []netip.Addr, sources plan.Sources) {
	a := c.assign(local)
	return a.node, a.nodePorts, a.sources
}
