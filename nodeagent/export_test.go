package nodeagent

import (
	"context"
	"net/netip"
	"time"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/plan"
)

// Plane returns the data plane, for tests that modify it.
func (a *Agent) Plane() dataplane.Plane { return a.plane }

// Interpose wraps the agent's data plane. The agent must not run yet.
func (a *Agent) Interpose(wrap func(dataplane.Plane) dataplane.Plane) {
	a.plane = wrap(a.plane)
	a.syncer.plane = a.plane
}

// SetLocal sets the function that returns the machine's addresses. The agent must not run yet.
func (a *Agent) SetLocal(local func() ([]netip.Addr, error)) { a.machine = readdressed{local: local} }

// readdressed is this machine with other addresses.
type readdressed struct {
	Linux
	local func() ([]netip.Addr, error)
}

func (m readdressed) Addresses() ([]netip.Addr, error) { return m.local() }

// LookAround runs the agent's periodic check at once.
func (a *Agent) LookAround() { a.lookAround(context.Background()) }

// AuditEvery sets the time between two audits. The agent must not run yet.
func (a *Agent) AuditEvery(pause time.Duration) { a.auditPause = pause }

// Known returns the number of objects of a kind that the agent keeps.
func (a *Agent) Known(kind string) int { return len(a.follower.View().List(kind)) }

// APIAddr returns the address of the agent's API.
func (a *Agent) APIAddr() string { return a.lis.Addr().String() }

// HealthzAddr returns the address of the agent's health endpoints.
func (a *Agent) HealthzAddr() string { return a.healthz.Addr().String() }

// Assign returns the result of assign.
func (c *Config) Assign(local []netip.Addr) (node, nodePorts []netip.Addr, sources plan.Sources) {
	a := c.assign(local)
	return a.node, a.nodePorts, a.sources
}

// WatchTraffic is watchTraffic.
var WatchTraffic = watchTraffic

// WatchDrops is watchDrops.
var WatchDrops = watchDrops
