package kernel

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"portolan.dev/nodeagent/dataplane/packetfilter"
	"portolan.dev/nodeagent/plan"
)

// sourcesKey is the journal's key of the sources. All other keys are frontends, except keys that begin with
// settingKey.
const sourcesKey = "sources"

// adopt takes over the state on which the journal and the kernel agree, and the state of another
// plane if there is one.
func (p *Plane) adopt() error {
	if err := p.readJournalAndKernel(); err != nil {
		return err
	}
	if err := errors.Join(p.filter.SetSources(p.sources.Pods, p.sources.Node), p.inherit(p.opts.InitialState)); err != nil {
		return err
	}
	return p.restore()
}

// readJournalAndKernel reads the journal and the kernel, and makes up for entries that the journal has lost.
func (p *Plane) readJournalAndKernel() error {
	if err := p.journal.Each(p.loadEntry); err != nil {
		return err
	}
	recovered, err := p.recoverFronts()
	if err != nil {
		return err
	}
	if err := p.balancer.SetSources(p.sources); err != nil {
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
			s := &service{Settings: have.Settings, id: id, drain: p.fronts[id.For].drain()}
			p.services[id.Frontend] = s
			p.setBackends(s, have.Backends)
			if err := p.readDrains(s); err != nil {
				return err
			}
		}
	}
	if err := p.completeJournal(recovered); err != nil {
		return err
	}
	for _, f := range p.fronts { // the journal does not contain their backends
		p.syncFront(f)
	}
	return nil
}

// loadEntry reads an entry of the journal.
func (p *Plane) loadEntry(key, value string) error {
	switch {
	case key == sourcesKey:
		return readSources(value, &p.sources)
	case strings.HasPrefix(key, settingKey): // not a frontend either
		return nil
	}
	f, err := readRecord(key, value)
	if err != nil {
		return err
	}
	if f.standIn.IsValid() {
		p.standIns.note(f.at.Addr.Addr(), f.standIn)
	}
	p.fronts[f.at] = f
	return nil
}

// restore puts routes, servers and rules in place for the known frontends, and determines the
// servers in force. If the plane replaces another one, the rules of the other balancer stay in
// force until the servers exist.
func (p *Plane) restore() error {
	if err := p.openRanges(); err != nil {
		return err
	}
	w := p.newRun()
	var c packetfilter.Change
	for _, f := range p.fronts {
		if err := p.makeLocal(f, &c); err != nil {
			return err
		}
		w.queueAdditions(f)
		f.elements = p.elements(f, &p.sources)
		c.Add = append(c.Add, f.elements...)
	}
	p.locals = nil
	if err := p.filter.Commit(c); err != nil {
		return err
	}
	w.execute()
	w.forgetFlows()
	for at, err := range w.errs {
		p.log.Warn("change of another program not repaired", "server", at, "err", err)
	}
	if err := p.filter.Commit(packetfilter.Change{Remove: p.removeMissingStandIns(slices.Collect(maps.Values(p.fronts)))}); err != nil {
		return err
	}
	if err := p.filter.Install(); err != nil {
		return err
	}
	p.retryRemovals()
	p.reconcileFronts(slices.Collect(maps.Values(p.fronts)))
	return p.closeRoutes()
}

// openRanges makes the ranges of virtual addresses local.
func (p *Plane) openRanges() error {
	ranges := p.opts.ServiceCIDRs
	if !p.traits.SplitsClients {
		ranges = slices.Concat(ranges, StandIns)
	}
	for _, c := range ranges {
		switch err := p.routes.Add(c); {
		case err == nil:
			p.ranges = append(p.ranges, c)
		case c.Addr().Is6(): // a node may lack IPv6
			p.log.Warn("no IPv6 on this node", "err", err)
		default:
			return err
		}
	}
	return nil
}

// closeRoutes removes routes of the plane that are not needed, because the ranges may have changed
// since an earlier process.
func (p *Plane) closeRoutes() error {
	for _, r := range p.routes.All() {
		if slices.Contains(p.ranges, r) || r.IsSingleIP() && p.routedAddrs[r.Addr()] > 0 {
			continue
		}
		if err := p.routes.Delete(r); err != nil {
			return err
		}
	}
	return nil
}

// reread updates the mirror of one service from the kernel.
func (p *Plane) reread(id ID) {
	found, err := p.balancer.Backends(id)
	if err != nil {
		p.log.Warn("backends not read", "server", id, "err", err)
		return
	}
	if s := p.services[id.Frontend]; s != nil {
		p.setBackends(s, found[id.Frontend])
	}
}

// setBackends stores the backends of a service. Draining backends keep the end of their drain time.
func (p *Plane) setBackends(s *service, list []Backend) {
	old := s.backends
	s.backends, s.draining = make([]backend, 0, len(list)), 0
	for _, d := range list {
		s.backends = append(s.backends, backend{addr: d.Addr, weight: d.Weight, altered: d.Altered})
	}
	slices.SortFunc(s.backends, func(a, b backend) int { return a.addr.Compare(b.addr) })
	for i := range s.backends {
		b := &s.backends[i]
		k, known := slices.BinarySearchFunc(old, b.addr, func(o backend, a netip.AddrPort) int { return o.addr.Compare(a) })
		if known && old[k].until != 0 {
			s.setDraining(b, time.Unix(0, old[k].until))
		}
	}
}

func hasBackend(v *plan.VirtualServer, addr netip.AddrPort) bool {
	if v == nil {
		return false
	}
	_, ok := v.Real(addr)
	return ok
}

// reconcileFronts sets the programmed servers of frontends to the kernel's state, and releases
// frontends that have nothing left in the kernel.
func (p *Plane) reconcileFronts(fronts []*frontendState) {
	var gone []*frontendState
	for _, f := range fronts {
		p.syncFront(f)
		if f.empty() && !p.hasKernelState(f) {
			gone = append(gone, f)
		}
	}
	if len(gone) > 0 {
		p.release(gone)
	}
}

// syncFront sets the programmed servers of a frontend to the kernel's state.
func (p *Plane) syncFront(f *frontendState) {
	var buf [2]wantedService
	for _, w := range f.wanted(buf[:0]) {
		actual := p.actual(w.server, w.id)
		for a, v := range f.servers {
			if v == w.server {
				f.servers[a] = actual
			}
		}
	}
}

// hasKernelState reports whether a frontend still has a server in the kernel, or may have one.
func (p *Plane) hasKernelState(f *frontendState) bool {
	return slices.ContainsFunc(f.all(), func(id ID) bool {
		_, uncertain := p.uncertain[id.Frontend]
		return uncertain || p.services[id.Frontend] != nil
	})
}

// actual returns a virtual server as it is in the kernel, or nil if it is not there. Backends that another
// program has changed are left out, so that they are set again.
func (p *Plane) actual(v *plan.VirtualServer, id ID) *plan.VirtualServer {
	s := p.services[id.Frontend]
	if s == nil {
		return nil
	}
	if s.serves(p.reals(v)) && s.Settings == p.balancer.Settings(v) {
		return v
	}
	next := *v
	next.Reals = make([]plan.RealServer, 0, len(s.backends))
	for i := range s.backends {
		if b := &s.backends[i]; b.until == 0 && !b.altered {
			next.Reals = append(next.Reals, plan.RealServer{Addr: b.addr, Weight: p.plannedWeight(v, b.weight)})
		}
	}
	if s.Settings != p.balancer.Settings(&next) || !s.serves(p.reals(&next)) {
		next.Scheduler = plan.DefaultScheduler // differs from the wanted one
		next.Affinity = s.Affinity
	}
	return &next
}

// serves reports whether the backends of a service that do not drain are the given ones.
func (s *service) serves(reals []plan.RealServer) bool {
	if len(s.backends)-s.draining != len(reals) {
		return false
	}
	i := 0
	for k := range s.backends {
		b := &s.backends[k]
		if b.until != 0 {
			continue
		}
		if r := &reals[i]; r.Addr != b.addr || r.Weight != b.weight || b.altered {
			return false
		}
		i++
	}
	return true
}

// release removes frontends, and frees their routes, stand-ins, filter elements and journal
// entries.
func (p *Plane) release(fronts []*frontendState) {
	var c packetfilter.Change
	for _, f := range fronts {
		addr := f.at.Addr.Addr()
		c.Remove = append(c.Remove, f.elements...)
		if f.virtual {
			if p.routedAddrs[addr]--; p.routedAddrs[addr] == 0 {
				delete(p.routedAddrs, addr)
				c.Remove = append(c.Remove, packetfilter.Virtual(addr))
				if err := p.routes.Delete(netip.PrefixFrom(addr, addr.BitLen())); err != nil {
					p.log.Warn("route left behind", "err", err)
				}
			}
		}
		if f.standIn.IsValid() {
			p.standIns.release(addr, f.standIn)
		}
		p.journal.Delete(journalKey(f.at))
		delete(p.fronts, f.at)
	}
	if err := p.filter.Commit(c); err != nil {
		p.log.Warn("rules left behind", "err", err)
	}
	if err := p.journal.Flush(); err != nil {
		p.log.Warn("journal", "err", err)
	}
}
