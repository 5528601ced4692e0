package kernel

import (
	"context"
	"net/netip"
	"slices"

	"portolan.dev/nodeagent/plan"
)

// State implements dataplane.Plane: everything of ours is read from the kernel.
// Rules and routes that are not as they should be are repaired on the way, since
// no step is about them.
func (p *Plane) State(ctx context.Context) (*plan.State, error) {
	local, err := p.loopback.State(ctx)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	if err := p.readServices(); err != nil {
		return nil, err
	}
	if err := p.repairAround(); err != nil {
		return nil, err
	}
	state := &plan.State{Sources: p.sources, Servers: local.Servers}
	for _, f := range p.fronts {
		for _, v := range f.servers {
			if v != nil {
				state.Servers[v.Key] = v
			}
		}
	}
	return state, nil
}

func (p *Plane) readServices() error {
	ids := make([]ID, 0, len(p.services))
	for _, s := range p.services {
		ids = append(ids, s.id)
	}
	found, err := p.balancer.Read(ids)
	if err != nil {
		return err
	}
	for at, s := range p.services {
		have, ok := found[at]
		if !ok {
			delete(p.services, at)
			continue
		}
		s.Settings = have.Settings
		p.mirror(s, have.Backends)
	}
	for _, f := range p.fronts {
		p.settle(f)
	}
	return nil
}

// repairAround puts rules and routes back.
func (p *Plane) repairAround() error {
	if err := p.routes.Read(); err != nil {
		return err
	}
	wanted := slices.Clone(p.ranges)
	for addr := range p.vips {
		wanted = append(wanted, netip.PrefixFrom(addr, addr.BitLen()))
	}
	for _, r := range wanted {
		if !p.routes.Has(r) {
			p.log.Warn("drift repaired", "difference", "no route to "+r.String())
			if err := p.routes.Add(r); err != nil {
				return err
			}
		}
	}
	if drift := p.filter.Drift(); len(drift) > 0 {
		p.log.Warn("drift repaired", "differences", drift)
		return p.filter.Install()
	}
	return nil
}
