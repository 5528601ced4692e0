package kernel

import (
	"time"

	"portolan.dev/nodeagent/dataplane/packetfilter"
	"portolan.dev/nodeagent/plan"
)

// recoveredDrain is the drain time of recovered servers, because the kernel does not have it. It is the
// default of the agent's flag drain-timeout.
const recoveredDrain = 5 * time.Minute

// recoverFronts makes up for a journal that is missing or damaged, and returns the frontends that it adds.
// Servers in the kernel that bear the balancer's mark, and that the journal lacks, count as the plane's own.
// Their properties are read from the packet filter, as far as it has them. They go on forwarding until the
// plan is known, because a lost file is no reason to stop.
//
// The alternative, to remove such servers, would end all forwarding if the registry is away too.
func (p *Plane) recoverFronts() ([]*frontendState, error) {
	if p.journal.Complete() || p.opts.Shared {
		return nil, nil
	}
	own, err := p.balancer.Own()
	if err != nil || len(own) == 0 {
		return nil, err
	}
	remains, err := p.host.Remains()
	if err != nil {
		return nil, err
	}
	if len(p.sources.Pods)+len(p.sources.Node) == 0 {
		p.sources = remains.Sources
	}
	var recovered []*frontendState
	for at, a := range p.unrecorded(own, remains) {
		f := p.recovered(at, a, remains)
		p.fronts[at] = f
		recovered = append(recovered, f)
	}
	p.log.Warn("the journal lacks servers that are in the kernel: they go on until the plan is known",
		"frontends", len(recovered), "to_remove", len(p.uncertain))
	return recovered, nil
}

// unrecorded returns the frontends of the servers that the journal lacks. Stand-ins without a frontend are to
// be removed.
func (p *Plane) unrecorded(own []ID, remains *packetfilter.Remains) map[plan.Frontend]audiences {
	recorded := map[plan.Frontend]bool{}
	for _, f := range p.fronts {
		for _, id := range f.all() {
			recorded[id.Frontend] = true
		}
	}
	serves := map[plan.Frontend]plan.Frontend{} // the frontend of each stand-in
	for at, r := range remains.Frontends {
		if r.StandIn.IsValid() {
			f := frontendState{at: at, standIn: r.StandIn}
			serves[f.secondary().Frontend] = at
		}
	}
	found := map[plan.Frontend]audiences{}
	for _, id := range own {
		at, external := id.For, id.Frontend != id.For
		if recorded[id.Frontend] || p.fronts[at] != nil {
			continue
		}
		if isStandIn(at.Addr.Addr()) {
			external = true
			if at = serves[id.Frontend]; at == (plan.Frontend{}) || p.fronts[at] != nil {
				p.uncertain[id.Frontend] = uncertainServer{id: id, unwanted: true}
				continue
			}
		}
		a := found[at]
		a.external, a.internal = a.external || external, a.internal || !external
		found[at] = a
	}
	return found
}

// audiences are the clients for which a frontend has a server in the kernel.
type audiences struct{ internal, external bool }

// recovered returns a frontend with the properties that the packet filter has.
func (p *Plane) recovered(at plan.Frontend, a audiences, remains *packetfilter.Remains) *frontendState {
	f, r, addr := &frontendState{at: at, lastDrain: recoveredDrain}, remains.Frontends[at], at.Addr.Addr()
	podsKnown := packetfilter.PodsKnown(p.sources.Pods, addr.Is6())
	masqueraded := r.Masquerade
	exposure := plan.NodePort
	switch {
	case p.inRange(addr):
		exposure = plan.ClusterIP
		if !r.Explicit {
			masqueraded = packetfilter.RangeClasses(podsKnown)
		}
	case remains.Virtual[addr]:
		exposure = plan.LoadBalancerIP
	}
	server := func(audience plan.Audience, clients packetfilter.Class, limited, drops bool) {
		v := &plan.VirtualServer{Key: plan.Key{Frontend: at, Audience: audience}, Attributes: plan.Attributes{
			Exposure: exposure, Drain: recoveredDrain, Masquerade: packetfilter.MasqueradeOf(masqueraded, clients, podsKnown),
		}}
		if limited {
			v.Restricted, v.Allowed = true, r.Allowed
		}
		if drops {
			v.WithoutBackends = plan.Drop
		}
		f.servers[audience] = v
	}
	switch {
	case !a.external:
		server(plan.AnyClient, packetfilter.InternalClasses|packetfilter.Outside, r.LimitInside || r.LimitOutside, r.DropInside || r.DropOutside)
		return f
	case a.internal:
		server(plan.Internal, packetfilter.InternalClasses, r.LimitInside, r.DropInside)
	}
	server(plan.External, packetfilter.Outside, r.LimitOutside, r.DropOutside)
	if r.StandIn.IsValid() {
		f.standIn = r.StandIn
		p.standIns.note(addr, r.StandIn)
	} else {
		f.standIn = p.standIns.acquire(addr)
	}
	return f
}

// completeJournal writes recovered frontends into the journal, with the schedulers that their servers have in
// the kernel. From then on the journal is complete.
func (p *Plane) completeJournal(recovered []*frontendState) error {
	if p.journal.Complete() || p.opts.Shared {
		return nil
	}
	for _, f := range recovered {
		for a, v := range f.servers {
			if v == nil {
				continue
			}
			id := f.primary()
			if v.Audience == plan.External {
				id = f.secondary()
			}
			if s := p.services[id.Frontend]; s != nil {
				f.servers[a] = p.likeService(v, s)
			}
		}
		p.journal.Put(journalKey(f.at), string(f.appendRecord(nil)))
	}
	if len(p.sources.Pods)+len(p.sources.Node) > 0 {
		p.journal.Put(sourcesKey, string(appendSources(nil, &p.sources)))
	}
	return p.journal.SetComplete()
}

// likeService returns the virtual server with the backends, scheduler, flags and affinity of a service.
func (p *Plane) likeService(v *plan.VirtualServer, s *service) *plan.VirtualServer {
	next := *v
	next.Affinity = s.Affinity
	for i := range s.backends {
		next.Reals = append(next.Reals, plan.RealServer{Addr: s.backends[i].addr, Weight: s.backends[i].weight})
	}
	for scheduler := plan.RoundRobin; scheduler <= plan.Maglev; scheduler++ {
		for _, flags := range []plan.Flags{0, plan.HashPort} {
			next.Scheduler, next.Flags = scheduler, flags
			have := s.Settings
			have.Closed = false
			if p.balancer.Settings(&next) == have {
				return p.withPlannedWeights(&next)
			}
		}
	}
	next.Scheduler, next.Flags = plan.RoundRobin, 0
	return &next
}

// withPlannedWeights returns the virtual server, whose backends have their weights in the kernel, with those of the plan.
func (p *Plane) withPlannedWeights(v *plan.VirtualServer) *plan.VirtualServer {
	for i := range v.Reals {
		v.Reals[i].Weight = p.plannedWeight(v, v.Reals[i].Weight)
	}
	return v
}
