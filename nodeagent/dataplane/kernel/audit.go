package kernel

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"time"

	"portolan.dev/nodeagent/plan"
)

// repairPause is the least time between two immediate repairs of changes by other programs, so that
// the plane does not fight another program continuously.
const repairPause = time.Second

// audit is a read of the kernel's state during which changes continue.
type audit struct {
	// touched are the frontends that were changed during the audit. Their state as read is not
	// reliable.
	touched map[plan.Frontend]bool
}

// touch marks a frontend as changed for the audit in progress.
func (p *Plane) touch(f plan.Frontend) {
	if p.audit != nil {
		p.audit.touched[f] = true
	}
}

// State implements dataplane.Plane. It reads all of the plane's state from the kernel, while
// changes continue. It also repairs rules and routes, because no step would repair them.
func (p *Plane) State(ctx context.Context) (*plan.State, error) {
	local, err := p.loopback.State(ctx)
	if err != nil {
		return nil, err
	}
	p.auditing.Lock() // one at a time
	defer p.auditing.Unlock()
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, errClosed
	}
	p.audit = &audit{touched: map[plan.Frontend]bool{}}
	ids := make([]ID, 0, len(p.services))
	for _, s := range p.services {
		ids = append(ids, s.id)
	}
	var found map[plan.Frontend]Server
	if !p.traits.ConcurrentRead {
		found, err = p.balancer.Read(ids)
	}
	p.mu.Unlock()

	if p.traits.ConcurrentRead {
		found, err = p.balancer.Read(ids)
	}
	drift, filterErr := p.filter.Read()

	p.mu.Lock()
	defer p.mu.Unlock()
	meanwhile := p.audit
	p.audit = nil
	switch {
	case p.closed:
		return nil, errClosed
	case err != nil:
		return nil, err
	case filterErr != nil:
		return nil, filterErr
	}
	p.retryRemovals()
	p.repairSettings()
	p.compare(found, meanwhile)
	if err := p.repairRoutes(); err != nil {
		return nil, err
	}
	if len(drift()) > 0 {
		if err := p.repairFilter(); err != nil {
			return nil, err
		}
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

// retryRemovals tries again to remove servers that may exist and are not wanted.
func (p *Plane) retryRemovals() {
	w := p.newRun()
	for _, d := range p.uncertain {
		if d.unwanted {
			w.queueDelete(d)
		}
	}
	w.execute()
	for at, err := range w.errs {
		p.log.Warn("not removed", "server", at, "err", err)
	}
}

// compare updates the mirror with the servers that were read.
func (p *Plane) compare(found map[plan.Frontend]Server, meanwhile *audit) {
	for at, s := range p.services {
		if meanwhile.touched[s.id.For] {
			continue
		}
		have, ok := found[at]
		if !ok {
			p.deleteDrains(s)
			delete(p.services, at)
			continue
		}
		s.Settings = have.Settings
		p.setBackends(s, have.Backends)
	}
	p.reconcileFronts(slices.Collect(maps.Values(p.fronts)))
}

// repairRoutes restores missing routes.
func (p *Plane) repairRoutes() error {
	if err := p.routes.Read(); err != nil {
		return err
	}
	wanted := slices.Clone(p.ranges)
	for addr := range p.routedAddrs {
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
	return nil
}

// repairFilter restores the packet filter if it has drifted. The caller holds the lock, so the
// filter does not change during the read.
func (p *Plane) repairFilter() error {
	if !p.filter.Installed() { // the plane was cleaned up
		return nil
	}
	drift, err := p.filter.Read()
	if err != nil {
		return err
	}
	found := drift()
	if len(found) == 0 {
		return nil
	}
	p.log.Warn("drift repaired", "differences", found)
	return p.filter.Install()
}

// repairNow calls repair after another program may have changed the plane's state.
func (p *Plane) repairNow(repair func() error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	if err := repair(); err != nil {
		p.log.Warn("change of another program not repaired", "err", err)
	}
}
