package nodeagent

import (
	"context"
	"net/netip"
	"time"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/machine"
	"portolan.dev/services/kit/app"
)

// Plane returns the data plane, for tests that modify it.
func (a *Agent) Plane() dataplane.Plane { return a.plane }

// NewPrepared builds an agent of this machine, and calls the prepare functions on it once its data
// plane is open, before its parts are built around the plane.
func NewPrepared(cfg Config, host app.Host, prepare ...func(*Agent)) (*Agent, error) {
	a, err := newAgent(machine.Linux{}, cfg, host)
	if err != nil {
		return nil, err
	}
	prepared := func() error {
		for _, p := range prepare {
			p(a)
		}
		return nil
	}
	if err := a.open(a.connect, a.openPlane, prepared, a.assemble); err != nil {
		return nil, err
	}
	return a, nil
}

// Interpose wraps the data plane of an agent that is being prepared.
func (a *Agent) Interpose(wrap func(dataplane.Plane) dataplane.Plane) { a.plane = wrap(a.plane) }

// SetLocal sets the function that returns the machine's addresses. The agent must not run yet.
func (a *Agent) SetLocal(local func() ([]netip.Addr, error)) { a.machine = readdressed{local: local} }

// readdressed is this machine with other addresses.
type readdressed struct {
	machine.Linux
	local func() ([]netip.Addr, error)
}

func (m readdressed) Addresses() ([]netip.Addr, error) { return m.local() }

// CheckSurroundings runs the agent's periodic check at once.
func (a *Agent) CheckSurroundings() { a.checkSurroundings(context.Background()) }

// AuditEvery sets the time between two audits. The agent must not run yet.
func (a *Agent) AuditEvery(pause time.Duration) { a.auditPause = pause }

// Known returns the number of objects of a kind that the agent keeps.
func (a *Agent) Known(kind string) int { return len(a.follower.View().List(kind)) }

// APIAddr returns the address of the agent's API.
func (a *Agent) APIAddr() string { return a.lis.Addr().String() }

// HealthzAddr returns the address of the agent's health endpoints.
func (a *Agent) HealthzAddr() string { return a.healthz.Addr().String() }
