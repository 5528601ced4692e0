package ipvs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/plan"
)

// drainEvery is how often backends that drain are looked at.
const drainEvery = 5 * time.Second

// adopt takes up what the journal and the kernel agree on.
func (p *Plane) adopt() error {
	err := p.journal.Each(func(_ string, value json.RawMessage) error {
		var r record
		if err := json.Unmarshal(value, &r); err != nil {
			return err
		}
		f := &front{at: r.At, standIn: r.StandIn, drained: r.Drain}
		for _, v := range r.Servers {
			f.servers[v.Audience] = v
		}
		if f.standIn.IsValid() {
			p.standIns.note(f.at.Addr.Addr(), f.standIn)
		}
		p.fronts[f.at] = f
		return nil
	})
	if err != nil {
		return err
	}
	found, table, err := p.readKernel()
	if err != nil {
		return err
	}
	for _, f := range p.fronts {
		for _, id := range f.all() {
			if set, ok := found[id]; ok {
				p.services[id] = &service{settings: set, front: f.at, drain: f.drain(), backends: map[netip.AddrPort]*backend{}}
				p.mirror(id, table[id])
			}
		}
	}
	return p.restore()
}

// restore puts rules and routes in place for the fronts that are known, and
// settles what each serves.
func (p *Plane) restore() error {
	for _, c := range slices.Concat(p.opts.ServiceCIDRs, StandIns) {
		switch err := p.routes.Add(c); {
		case err == nil:
			p.ranges = append(p.ranges, c)
		case c.Addr().Is6(): // a node may do without IPv6
			p.log.Warn("no IPv6 on this node", "err", err)
		default:
			return err
		}
	}
	if err := p.filter.Install(); err != nil {
		return err
	}
	var c kernel.Change
	for _, f := range p.fronts {
		if err := p.attract(f); err != nil {
			return err
		}
		f.elements = f.filter(p.sources.Node)
		c.Add = append(c.Add, f.elements...)
	}
	if err := p.filter.Commit(c); err != nil {
		return err
	}
	for _, f := range p.fronts {
		p.settle(f)
	}
	return nil
}

// readKernel reads all virtual servers, and all backends.
func (p *Plane) readKernel() (map[serviceID]settings, map[serviceID][]destination, error) {
	found, err := p.sock.services()
	if err != nil {
		return nil, nil, err
	}
	table, err := readTable(p.opts.Namespace)
	return found, table, err
}

// reread brings the mirror of one service to what the kernel has.
func (p *Plane) reread(id serviceID) {
	list, err := p.sock.destinations(id)
	if err != nil {
		p.log.Warn("backends not read", "server", id, "err", err)
		return
	}
	if p.services[id] != nil {
		p.mirror(id, list)
	}
}

// mirror takes in the backends of a service.
func (p *Plane) mirror(id serviceID, list []destination) {
	s := p.services[id]
	v := p.wantedAt(id, s.front)
	seen := map[netip.AddrPort]bool{}
	for _, d := range list {
		seen[d.addr] = true
		b := s.backends[d.addr]
		if b == nil {
			b = &backend{}
			s.backends[d.addr] = b
			if d.weight == 0 && !wants(v, d.addr) { // an earlier process drained it
				s.leave(b, clock().Add(s.drain))
				p.watch()
			}
		}
		b.weight = d.weight
	}
	for addr := range s.backends {
		if !seen[addr] {
			s.forget(addr)
		}
	}
}

func (p *Plane) wantedAt(id serviceID, at plan.Frontend) *plan.VirtualServer {
	if f := p.fronts[at]; f != nil {
		return f.wanted()[id]
	}
	return nil
}

func wants(v *plan.VirtualServer, addr netip.AddrPort) bool {
	if v == nil {
		return false
	}
	_, ok := v.Real(addr)
	return ok
}

// settle makes what counts as programmed what is in the kernel, and forgets a
// front that has nothing left there.
func (p *Plane) settle(f *front) {
	wanted := f.wanted()
	for a, v := range f.servers {
		if v == nil {
			continue
		}
		for id, w := range wanted {
			if w == v && f.servers[a] != nil {
				f.servers[a] = p.actual(v, id)
			}
		}
	}
	if len(f.wanted()) > 0 || slices.ContainsFunc(f.all(), func(id serviceID) bool { return p.services[id] != nil }) {
		return
	}
	p.release(f)
}

// actual is a virtual server as the kernel has it; nil: it does not.
func (p *Plane) actual(v *plan.VirtualServer, id serviceID) *plan.VirtualServer {
	s := p.services[id]
	if s == nil {
		return nil
	}
	next := *v
	next.Reals = make([]plan.RealServer, 0, len(s.backends))
	for addr, b := range s.backends {
		if b.until.IsZero() {
			next.Reals = append(next.Reals, plan.RealServer{Addr: addr, Weight: b.weight})
		}
	}
	slices.SortFunc(next.Reals, func(a, b plan.RealServer) int { return a.Addr.Compare(b.Addr) })
	if want := p.settingsOf(&next); s.settings != want {
		next.Scheduler = plan.DefaultScheduler // not what was asked for
	}
	if len(next.Reals) == 0 {
		next.Reals = v.Reals[:0]
	}
	if next.Equal(v) {
		return v
	}
	return &next
}

// release forgets a front.
func (p *Plane) release(f *front) {
	addr := f.at.Addr.Addr()
	c := kernel.Change{Remove: f.elements}
	if f.virtual {
		if p.vips[addr]--; p.vips[addr] == 0 {
			delete(p.vips, addr)
			c.Remove = append(c.Remove, kernel.Virtual(addr))
			if err := p.routes.Delete(netip.PrefixFrom(addr, addr.BitLen())); err != nil {
				p.log.Warn("route left behind", "err", err)
			}
		}
	}
	if err := p.filter.Commit(c); err != nil {
		p.log.Warn("rules left behind", "err", err)
	}
	if f.standIn.IsValid() {
		p.standIns.release(addr, f.standIn)
	}
	if err := p.journal.Delete(f.at.String()); err != nil {
		p.log.Warn("journal", "err", err)
	}
	delete(p.fronts, f.at)
}

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
	found, table, err := p.readKernel()
	if err != nil {
		return err
	}
	for id, s := range p.services {
		set, ok := found[id]
		if !ok {
			delete(p.services, id)
			continue
		}
		s.settings = set
		p.mirror(id, table[id])
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

// watch wakes the goroutine that ends draining.
func (p *Plane) watch() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// drain removes backends whose connections have ended, or whose time is over,
// until the plane is closed.
func (p *Plane) drain() {
	defer close(p.stopped)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-p.kick:
		case <-timer.C:
		}
		p.mu.Lock()
		next := p.sweep(clock())
		p.mu.Unlock()
		timer.Reset(next)
	}
}

// sweep ends what can be ended, and returns when to look again.
func (p *Plane) sweep(now time.Time) time.Duration {
	next := time.Hour
	w := &work{plane: p, errs: map[plan.Frontend]error{}}
	touched := map[*front]bool{}
	var ops []op
	for id, s := range p.services {
		f := p.fronts[s.front]
		if s.leaving == 0 || f == nil {
			continue
		}
		var wait time.Duration
		ops, wait = p.ended(ops, f, id, s, now)
		next = min(next, wait)
		touched[f] = true
	}
	w.execute(ops)
	for f := range touched {
		p.settle(f)
	}
	for at, err := range w.errs {
		p.log.Warn("draining backend not removed", "server", at, "err", err)
	}
	return next
}

// ended appends the removal of the backends of a service that have drained.
func (p *Plane) ended(ops []op, f *front, id serviceID, s *service, now time.Time) ([]op, time.Duration) {
	wait := drainEvery
	busy := map[netip.AddrPort]bool{}
	list, err := p.sock.destinations(id)
	if err != nil {
		p.log.Warn("draining backends not read", "server", id, "err", err)
	}
	for _, d := range list {
		busy[d.addr] = d.active+d.inactive > 0
	}
	left := len(s.backends)
	for addr, b := range s.backends {
		switch {
		case b.until.IsZero():
		case b.until.After(now) && (busy[addr] || err != nil):
			wait = min(wait, b.until.Sub(now))
		default:
			left--
			ops = append(ops, op{destRequest(cmdDelDest, id, addr, 0), f.at, id, "", func() { s.forget(addr) }})
		}
	}
	if left == 0 && f.wanted()[id] == nil {
		ops = append(ops, op{deleteService(id), f.at, id, "", func() { delete(p.services, id) }})
	}
	return ops, wait
}

// Cleanup takes everything of ours out of the kernel, and nothing else. The
// plane can only be closed after it.
func (p *Plane) Cleanup() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errClosed
	}
	var requests []request
	for id := range p.services {
		requests = append(requests, deleteService(id))
	}
	errs := []error{}
	for i, err := range p.sock.do(requests) {
		if err != nil && !done(requests[i].cmd, err) {
			errs = append(errs, err)
		}
	}
	for _, r := range p.routes.All() {
		errs = append(errs, p.routes.Delete(r))
	}
	errs = append(errs, p.filter.Remove())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cleanup: %w", err)
	}
	clear(p.services)
	clear(p.fronts)
	clear(p.vips)
	p.standIns = newStandIns()
	return p.journal.Remove()
}
