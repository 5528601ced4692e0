package nodeagent

import (
	"context"
	"net/netip"
	"time"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/plan"
)

// Plane is the data plane, for tests that interfere with it.
func (a *Agent) Plane() dataplane.Plane { return a.plane }

// Interpose puts something between the agent and its data plane. The agent must
// not run yet.
func (a *Agent) Interpose(wrap func(dataplane.Plane) dataplane.Plane) {
	a.plane = wrap(a.plane)
	a.syncer.plane = a.plane
}

// SetLocal says what the machine's addresses are. The agent must not run yet.
func (a *Agent) SetLocal(local func() ([]netip.Addr, error)) { a.machine = readdressed{local: local} }

// readdressed is this machine with other addresses.
type readdressed struct {
	Linux
	local func() ([]netip.Addr, error)
}

func (m readdressed) Addresses() ([]netip.Addr, error) { return m.local() }

// LookAround does at once what the agent does now and then.
func (a *Agent) LookAround() { a.lookAround(context.Background()) }

// AuditEvery sets the time between two audits. The agent must not run yet.
func (a *Agent) AuditEvery(pause time.Duration) { a.auditPause = pause }

// Known counts the objects of a kind that the agent keeps.
func (a *Agent) Known(kind string) int { return len(a.follower.View().List(kind)) }

// APIAddr is where the agent listens.
func (a *Agent) APIAddr() string { return a.lis.Addr().String() }

// HealthzAddr is where the agent's health endpoints are.
func (a *Agent) HealthzAddr() string { return a.healthz.Addr().String() }

// Assign gives addresses their roles.
func (c *Config) Assign(local []netip.Addr) (node, nodePorts []netip.Addr, sources plan.Sources) {
	a := c.assign(local)
	return a.node, a.nodePorts, a.sources
}

// WatchTraffic registers metrics of the traffic of so many service ports.
var WatchTraffic = watchTraffic

// WatchDrops registers the metric of dropped packets, of so many service ports.
var WatchDrops = watchDrops
