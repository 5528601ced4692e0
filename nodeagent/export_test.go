package nodeagent

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"time"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/dataplane/kernelmode"
	"portolan.dev/nodeagent/internal/linux"
	"portolan.dev/nodeagent/machine"
	"portolan.dev/services/kit/app"
)

// Plane returns the data plane, for tests that modify it.
func (d *Daemon) Plane() dataplane.Plane { return d.plane }

// NewPrepared builds an agent of this machine, and calls the prepare functions on it once its data
// plane is open, before its parts are built around the plane.
func NewPrepared(cfg Config, host app.Host, prepare ...func(*Daemon)) (*Daemon, error) {
	d, err := newDaemon(untouched{}, cfg, host)
	if err != nil {
		return nil, err
	}
	prepared := func() error {
		for _, p := range prepare {
			p(d)
		}
		return nil
	}
	if err := d.open(d.connect, d.openPlane, prepared, d.assemble); err != nil {
		return nil, err
	}
	return d, nil
}

// untouched is this machine. Tests leave its kernel as it is.
type untouched struct{ linux.Machine }

// Claim implements machine.Machine: another agent may run on this machine.
func (untouched) Claim() io.Closer { return nil }

// Locals implements machine.Machine.
func (untouched) Locals(kernelmode.Options) (machine.Locals, error) {
	return nil, errors.ErrUnsupported
}

// Interpose wraps the data plane of an agent that is being prepared.
func (d *Daemon) Interpose(wrap func(dataplane.Plane) dataplane.Plane) { d.plane = wrap(d.plane) }

// SetLocal sets the function that returns the machine's addresses. The agent must not run yet.
func (d *Daemon) SetLocal(local func() ([]netip.Addr, error)) { d.machine = readdressed{local: local} }

// readdressed is this machine with other addresses.
type readdressed struct {
	untouched
	local func() ([]netip.Addr, error)
}

func (m readdressed) Addresses() ([]netip.Addr, error) { return m.local() }

// SetSpeaker sets the function that opens the machine's speaker of BGP. The agent must not run yet.
func (d *Daemon) SetSpeaker(open func(machine.SpeakerOptions) (machine.Speaker, error)) {
	d.machine = speaking{open: open}
}

// speaking is this machine with another speaker.
type speaking struct {
	untouched
	open func(machine.SpeakerOptions) (machine.Speaker, error)
}

func (m speaking) OpenSpeaker(o machine.SpeakerOptions) (machine.Speaker, error) { return m.open(o) }

// CheckSurroundings runs the agent's periodic check at once.
func (d *Daemon) CheckSurroundings() { d.checkSurroundings(context.Background()) }

// AuditEvery sets the time between two audits. The agent must not run yet.
func (d *Daemon) AuditEvery(pause time.Duration) { d.auditPause = pause }

// Known returns the number of objects of a kind that the agent keeps.
func (d *Daemon) Known(kind string) int { return len(d.follower.View().List(kind)) }

// APIAddr returns the address of the agent's API.
func (d *Daemon) APIAddr() string { return d.lis.Addr().String() }

// HealthzAddr returns the address of the agent's health endpoints.
func (d *Daemon) HealthzAddr() string { return d.healthz.Addr().String() }
