package kernel

import (
	"encoding/json"
	"errors"
	"net/netip"
	"slices"

	"portolan.dev/nodeagent/plan"
)

// sourcesKey is the journal's key of the sources. All others are frontends.
const sourcesKey = "sources"

// adopt takes up what the journal and the kernel agree on, and puts back what
// the kernel has lost.
func (p *Plane) adopt() error {
	if err := p.journal.Each(p.recall); err != nil {
		return err
	}
	if err := errors.Join(p.filter.SetSources(p.sources.Pods, p.sources.Node), p.balancer.SetSources(p.sources)); err != nil {
		return err
	}
	var ids []ID
	for _, f := range p.fronts {
		ids = append(ids, f.all()...)
	}
	found, err := p.balancer.Read(ids)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if have, ok := found[id.Frontend]; ok {
			s := &service{Settings: have.Settings, id: id, drain: p.fronts[id.For].drain(), backends: map[netip.AddrPort]*backend{}}
			p.services[id.Frontend] = s
			p.mirror(s, have.Backends)
		}
	}
	return p.restore()
}

// recall takes in a line of the journal.
func (p *Plane) recall(key string, value json.RawMessage) error {
	if key == sourcesKey {
		return json.Unmarshal(value, &p.sources)
	}
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
}

// restore puts routes, servers and rules in place for the fronts that are known,
// and settles what each serves. The rules of another balancer, whose place is
// taken, hold until the servers are there.
func (p *Plane) restore() error {
	if err := p.openRanges(); err != nil {
		return err
	}
	w := &work{plane: p, errs: map[plan.Frontend]error{}}
	var ops []op
	for _, f := range p.fronts {
		if err := p.attract(f); err != nil {
			return err
		}
		ops = w.arrivals(ops, f)
		f.elements = f.filter(p.sources.Node, p.traits)
		if err := p.filter.Commit(Change{Add: f.elements}); err != nil {
			return err
		}
	}
	w.execute(ops)
	w.forget()
	for at, err := range w.errs {
		p.log.Warn("not put back", "server", at, "err", err)
	}
	if err := p.filter.Install(); err != nil {
		return err
	}
	for _, f := range p.fronts {
		p.settle(f)
	}
	return p.closeRoutes()
}

// openRanges makes ranges of virtual addresses local.
func (p *Plane) openRanges() error {
	ranges := p.opts.ServiceCIDRs
	if !p.traits.Splits {
		ranges = slices.Concat(ranges, StandIns)
	}
	for _, c := range ranges {
		switch err := p.routes.Add(c); {
		case err == nil:
			p.ranges = append(p.ranges, c)
		case c.Addr().Is6(): // a node may do without IPv6
			p.log.Warn("no IPv6 on this node", "err", err)
		default:
			return err
		}
	}
	return nil
}

// closeRoutes removes routes of ours that nothing needs: ranges may have been
// others before.
func (p *Plane) closeRoutes() error {
	for _, r := range p.routes.All() {
		if slices.Contains(p.ranges, r) || r.IsSingleIP() && p.vips[r.Addr()] > 0 {
			continue
		}
		if err := p.routes.Delete(r); err != nil {
			return err
		}
	}
	return nil
}

// reread brings the mirror of one service to what the kernel has.
func (p *Plane) reread(id ID) {
	found, err := p.balancer.Backends(id)
	if err != nil {
		p.log.Warn("backends not read", "server", id, "err", err)
		return
	}
	if s := p.services[id.Frontend]; s != nil {
		p.mirror(s, found[id.Frontend])
	}
}

// mirror takes in the backends of a service.
func (p *Plane) mirror(s *service, list []Backend) {
	var v *plan.VirtualServer
	if f := p.fronts[s.id.For]; f != nil {
		v = f.wanted()[s.id]
	}
	seen := map[netip.AddrPort]bool{}
	for _, d := range list {
		seen[d.Addr] = true
		b := s.backends[d.Addr]
		if b == nil {
			b = &backend{}
			s.backends[d.Addr] = b
			if d.Weight == 0 && !wants(v, d.Addr) { // an earlier process drained it
				s.leave(b, clock().Add(s.drain))
				p.watch()
			}
		}
		b.weight = d.Weight
	}
	for addr := range s.backends {
		if !seen[addr] {
			s.forget(addr)
		}
	}
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
	if len(f.wanted()) > 0 || slices.ContainsFunc(f.all(), func(id ID) bool { return p.services[id.Frontend] != nil }) {
		return
	}
	p.release(f)
}

// actual is a virtual server as the kernel has it; nil: it does not.
func (p *Plane) actual(v *plan.VirtualServer, id ID) *plan.VirtualServer {
	s := p.services[id.Frontend]
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
	if want := p.balancer.Settings(&next); s.Settings != want {
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
	c := Change{Remove: f.elements}
	if f.virtual {
		if p.vips[addr]--; p.vips[addr] == 0 {
			delete(p.vips, addr)
			c.Remove = append(c.Remove, Virtual(addr))
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
