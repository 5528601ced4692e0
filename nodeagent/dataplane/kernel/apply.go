package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/dataplane/host"
	"portolan.dev/nodeagent/dataplane/netfilter"
	"portolan.dev/nodeagent/dataplane/packetfilter"
	"portolan.dev/nodeagent/plan"
)

var errClosed = errors.New("the data plane is closed")

// Apply implements dataplane.Plane. It compares the wanted servers of all changed frontends with
// the mirror of the kernel at once: rules change before servers, servers before backends, and
// additions come before removals.
func (p *Plane) Apply(ctx context.Context, changed plan.Changes) []dataplane.Failure {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return dataplane.FailAll(changed, errClosed)
	case ctx.Err() != nil:
		return dataplane.FailAll(changed, context.Cause(ctx))
	}
	local, rest := separate(changed)
	failures := p.loopback.Apply(ctx, local)
	if rest.Sources != nil {
		if err := p.setSources(*rest.Sources); err != nil {
			failures = append(failures, dataplane.Failure{Frontend: dataplane.SharedRules, Err: err, Remedy: netfilter.ListTables})
		}
	}
	w := p.newRun()
	w.reserve(len(rest.Frontends))
	for i := range rest.Frontends {
		w.add(&rest.Frontends[i])
	}
	w.run()
	return append(failures, w.failures()...)
}

// separate splits off the changes of loopback frontends. The sources are in both results.
func separate(c plan.Changes) (local, rest plan.Changes) {
	local.Sources, rest.Sources = c.Sources, c.Sources
	rest.Frontends = make([]plan.FrontendServers, 0, len(c.Frontends))
	for _, f := range c.Frontends {
		if f.Addr.Addr().IsLoopback() {
			local.Frontends = append(local.Frontends, f)
		} else {
			rest.Frontends = append(rest.Frontends, f)
		}
	}
	return local, rest
}

// setSources changes the sources of internal traffic, and the elements that depend on the node's
// addresses. If it fails, the sources are not in force, so that the next audit tries again.
func (p *Plane) setSources(s plan.Sources) error {
	if err := errors.Join(p.filter.SetSources(s.Pods, s.Node), p.balancer.SetSources(s)); err != nil {
		return err
	}
	var c packetfilter.Change
	for _, f := range p.fronts {
		now := p.elements(f, &s)
		c.Remove = append(c.Remove, without(f.elements, now)...)
		c.Add = append(c.Add, without(now, f.elements)...)
		f.elements = now
	}
	if err := p.filter.Commit(c); err != nil {
		return err
	}
	p.sources = s
	p.journal.Put(sourcesKey, string(appendSources(nil, &s)))
	return p.journal.Flush()
}

// applyRun is the state of one call of Apply.
type applyRun struct {
	plane   *Plane
	changes []change
	errs    map[plan.Frontend]error
	flows   []host.Flow // to be removed from connection tracking
	// unanswered are flows to backends that drain and may be dead. A client that still waits for
	// the first answer from such a backend is moved to another one.
	unanswered      []host.Flow
	retrySchedulers bool // a scheduler was found to be missing
	// ops are the queued operations, and of[i] is the service of ops[i].
	ops        []Op
	opServices []*service
}

// change is a frontend to change.
type change struct {
	front   *frontendState
	wanted  *plan.FrontendServers
	invalid error // names the backends that are left out
}

func (p *Plane) newRun() *applyRun { return &applyRun{plane: p, errs: map[plan.Frontend]error{}} }

// reserve allocates space for n changes, so that the maps of an empty plane do not grow again and
// again while it is filled.
func (w *applyRun) reserve(n int) {
	p := w.plane
	w.changes = make([]change, 0, n)
	if len(p.fronts) == 0 && len(p.services) == 0 {
		p.fronts = make(map[plan.Frontend]*frontendState, n)
		p.services = make(map[plan.Frontend]*service, n)
	}
}

// add sets the servers of a frontend to the wanted ones, without invalid backends.
func (w *applyRun) add(wanted *plan.FrontendServers) {
	f := w.plane.fronts[wanted.Frontend]
	if f == nil {
		if wanted.Empty() {
			return // there is no server to remove
		}
		f = &frontendState{at: wanted.Frontend}
		w.plane.fronts[f.at] = f
	}
	c := change{front: f, wanted: wanted}
	f.servers = wanted.Servers
	for a, v := range f.servers {
		if v == nil {
			continue
		}
		valid, err := dataplane.WithoutInvalidBackends(v)
		f.servers[a] = valid
		if err != nil {
			c.invalid = errors.Join(c.invalid, err)
		}
	}
	w.changes = append(w.changes, c)
}

// run makes the changes that were added.
func (w *applyRun) run() {
	if len(w.changes) == 0 {
		return
	}
	p := w.plane
	fronts := make([]*frontendState, len(w.changes))
	for i := range w.changes {
		fronts[i] = w.changes[i].front
		p.touch(fronts[i].at)
	}
	late := w.prepare(fronts)
	for range 2 { // the second time without schedulers that the kernel lacks
		w.retrySchedulers = false
		for _, f := range fronts {
			w.queueAdditions(f)
			w.executeFull()
		}
		w.execute()
		if !w.retrySchedulers {
			break
		}
		clear(w.errs)
	}
	misleads := p.removeMissingStandIns(fronts)
	late.Remove = append(late.Remove, without(misleads, late.Add)...)
	late.Add = without(late.Add, misleads)
	w.commit(fronts, late)
	for _, f := range fronts {
		w.queueRemovals(f)
		w.executeFull()
	}
	w.execute()
	w.forgetFlows()
	w.plane.reconcileFronts(fronts)
}

// prepare writes the new state to the journal, makes virtual addresses local, and makes the changes
// of the packet filter that must come before servers. It returns the other changes.
func (w *applyRun) prepare(fronts []*frontendState) (late packetfilter.Change) {
	p := w.plane
	var early packetfilter.Change
	var buf []byte
	for _, f := range fronts {
		if f.split() && !f.standIn.IsValid() {
			f.standIn = p.standIns.acquire(f.at.Addr.Addr())
		}
		buf = f.appendRecord(buf[:0])
		p.journal.Put(journalKey(f.at), string(buf))
		if err := p.makeLocal(f, &early); err != nil {
			w.fail(f.at, err)
		}
		w.rules(f, &early, &late)
	}
	p.locals = nil
	w.failAll(fronts, p.flushJournals())
	w.commit(fronts, early)
	return late
}

// commit changes the packet filter. Elements that the kernel refuses are failures of their
// frontends.
func (w *applyRun) commit(fronts []*frontendState, c packetfilter.Change) {
	err := w.plane.filter.Commit(c)
	var refused *packetfilter.RefusedError
	if !errors.As(err, &refused) {
		w.failAll(fronts, err)
		return
	}
	for _, f := range fronts {
		for _, e := range f.elements {
			if err := refused.Elements[e]; err != nil {
				w.fail(f.at, err)
			}
		}
		// Refused elements are tried again later.
		f.elements = slices.DeleteFunc(f.elements, func(e packetfilter.Element) bool { return refused.Elements[e] != nil })
	}
}

// makeLocal makes a frontend's address local to the node.
func (p *Plane) makeLocal(f *frontendState, c *packetfilter.Change) error {
	addr := f.at.Addr.Addr()
	if f.virtual || f.exposure() == plan.NodePort || f.empty() || p.inRange(addr) {
		return nil
	}
	if p.routedAddrs[addr] == 0 {
		if p.locals == nil {
			locals, err := p.routes.Addresses()
			if err != nil {
				return err
			}
			p.locals = locals
		}
		if p.locals[addr] { // an address of the node is local already, and other sockets use it
			return nil
		}
		if err := p.routes.Add(netip.PrefixFrom(addr, addr.BitLen())); err != nil {
			return err
		}
		c.Add = append(c.Add, packetfilter.Virtual(addr))
	}
	p.routedAddrs[addr]++
	f.virtual = true
	return nil
}

func (p *Plane) inRange(addr netip.Addr) bool {
	return slices.ContainsFunc(p.opts.ServiceCIDRs, func(c netip.Prefix) bool { return c.Contains(addr) })
}

// rules adds the changes of a frontend's filter elements to early and late. Early changes must come
// before servers. Late ones are redirections, rejections and removals.
func (w *applyRun) rules(f *frontendState, early, late *packetfilter.Change) {
	now := w.plane.elements(f, &w.plane.sources)
	if slices.Equal(now, f.elements) {
		return
	}
	added, removed := without(now, f.elements), without(f.elements, now)
	f.elements = now
	for _, e := range added {
		switch e.Set {
		case packetfilter.SplitMap, packetfilter.DropInside, packetfilter.DropOutside:
			late.Add = append(late.Add, e)
		default:
			early.Add = append(early.Add, e)
		}
	}
	for _, e := range removed {
		replaced := slices.ContainsFunc(added, func(a packetfilter.Element) bool { return a.Set == e.Set && a.Key == e.Key })
		if replaced && e.Set != packetfilter.SplitMap {
			early.Remove = append(early.Remove, e)
		} else {
			late.Remove = append(late.Remove, e)
		}
	}
}

// removeMissingStandIns removes from the frontends, and returns, the elements that would send
// clients to stand-ins that could not be added. The next try adds them again.
func (p *Plane) removeMissingStandIns(fronts []*frontendState) (elements []packetfilter.Element) {
	for _, f := range fronts {
		if p.traits.SplitsClients || !f.split() || p.services[f.secondary().Frontend] != nil {
			continue
		}
		misleads := packetfilter.Split(f.at, f.standIn)
		if i := slices.Index(f.elements, misleads); i >= 0 {
			f.elements = slices.Delete(f.elements, i, i+1)
			elements = append(elements, misleads)
		}
	}
	return elements
}

// elements returns the packet filter's elements for a frontend.
func (p *Plane) elements(f *frontendState, sources *plan.Sources) []packetfilter.Element {
	implied := packetfilter.Class(0)
	if addr := f.at.Addr.Addr(); p.inRange(addr) {
		implied = packetfilter.RangeClasses(packetfilter.PodsKnown(sources.Pods, addr.Is6()))
	}
	return f.filter(sources, p.traits, implied)
}

// without returns the elements of a that are not in b.
func without(a, b []packetfilter.Element) []packetfilter.Element {
	if len(b) == 0 {
		return a
	}
	known := make(map[packetfilter.Element]bool, len(b))
	for _, e := range b {
		known[e] = true
	}
	var out []packetfilter.Element
	for _, e := range a {
		if !known[e] {
			out = append(out, e)
		}
	}
	return out
}

// queue queues an operation.
func (w *applyRun) queue(o Op, s *service) {
	o.ID = s.id
	w.ops, w.opServices = append(w.ops, o), append(w.opServices, s)
}

// queueAdditions queues the additions and changes of a frontend's services and backends, without
// removals.
func (w *applyRun) queueAdditions(f *frontendState) {
	p := w.plane
	var buf [2]wantedService
	for _, wanted := range f.wanted(buf[:0]) {
		id, v := wanted.id, wanted.server
		settings := p.balancer.Settings(v)
		have := p.services[id.Frontend]
		switch {
		case have == nil:
			have = &service{id: id, backends: make([]backend, 0, len(v.Reals))}
			w.queue(Op{Kind: AddServer, Settings: settings}, have)
		case have.Settings != settings:
			w.queue(Op{Kind: SetServer, Settings: settings}, have)
		}
		have.drain = v.Drain
		if f.at.Protocol == plan.UDP && p.traits.UsesConntrack && !have.hasUsableBackend() { // refused flows would be refused again
			w.flows = append(w.flows, host.Flow{Frontend: f.at.Addr, Protocol: uint8(f.at.Protocol), Backend: f.at.Addr})
		}
		w.queueWeights(have, p.reals(v))
	}
}

// queueWeights queues the operations that set the backends' weights. Weights are lowered last, so
// that a backend with weight exists all the time.
func (w *applyRun) queueWeights(s *service, reals []plan.RealServer) {
	lowered := func(r plan.RealServer) bool {
		b := s.backend(r.Addr)
		return b != nil && r.Weight < b.weight
	}
	var last []plan.RealServer
	for _, r := range reals {
		if lowered(r) {
			last = append(last, r)
			continue
		}
		w.queueBackend(s, r)
	}
	for _, r := range last {
		w.queueBackend(s, r)
	}
}

func (w *applyRun) queueBackend(s *service, r plan.RealServer) {
	b := s.backend(r.Addr)
	switch {
	case b == nil:
		w.queue(Op{Kind: AddBackend, Backend: r.Addr, Weight: r.Weight}, s)
	case b.weight != r.Weight || b.altered:
		w.queue(Op{Kind: SetBackend, Backend: r.Addr, Weight: r.Weight}, s)
	default:
		s.setDraining(b, time.Time{})
	}
}

// queueRemovals queues the removals of a frontend's services and backends. Backends with
// connections drain first.
func (w *applyRun) queueRemovals(f *frontendState) {
	for _, id := range f.all() {
		s, v := w.plane.services[id.Frontend], f.wantedAt(id)
		if s == nil {
			if d, uncertain := w.plane.uncertain[id.Frontend]; uncertain && v == nil {
				w.queueDelete(d)
			}
			continue
		}
		if v != nil && s.draining == 0 && s.serves(w.plane.reals(v)) {
			continue
		}
		left := 0
		for i := range s.backends {
			b := &s.backends[i]
			if hasBackend(v, b.addr) {
				continue
			}
			drains := f.at.Protocol != plan.UDP && s.drain > 0
			if drains {
				left++
			}
			w.queueBackendRemoval(s, b, drains)
		}
		switch {
		case v == nil && left == 0:
			w.queue(Op{Kind: DeleteServer}, s)
		case v == nil && w.plane.traits.SplitsClients && !s.Closed: // its clients use another server while it drains
			closed := s.Settings
			closed.Closed = true
			w.queue(Op{Kind: SetServer, Settings: closed}, s)
		}
	}
}

// queueDelete queues the removal of a server that may exist and is not wanted any more.
func (w *applyRun) queueDelete(d uncertainServer) {
	d.unwanted = true
	w.plane.uncertain[d.id.Frontend] = d
	w.queue(Op{Kind: DeleteServer}, &service{id: d.id})
}

func (w *applyRun) queueBackendRemoval(s *service, b *backend, drains bool) {
	if !drains {
		w.queue(Op{Kind: DeleteBackend, Backend: b.addr}, s)
		return
	}
	if b.until == 0 {
		s.setDraining(b, clock().Add(s.drain))
		w.plane.watchDraining(s)
	}
	if b.weight != 0 {
		w.queue(Op{Kind: SetBackend, Backend: b.addr}, s)
	}
}

// serves reports whether a frontend has a backend for any audience.
func (p *Plane) serves(at plan.Frontend, addr netip.AddrPort) bool {
	f := p.fronts[at]
	return f != nil && slices.ContainsFunc(f.all(), func(id ID) bool {
		s := p.services[id.Frontend]
		return s != nil && s.backend(addr) != nil
	})
}

func (w *applyRun) fail(at plan.Frontend, err error) {
	if w.errs[at] == nil {
		w.errs[at] = err
	}
}

// failAll stores an error for all the frontends.
func (w *applyRun) failAll(fronts []*frontendState, err error) {
	if err == nil {
		return
	}
	for _, f := range fronts {
		w.fail(f.at, err)
	}
}

// failures returns the failures of the changes.
func (w *applyRun) failures() []dataplane.Failure {
	var out []dataplane.Failure
	for i := range w.changes {
		if f := w.failure(&w.changes[i]); f.Err != nil {
			f.Frontend = w.changes[i].front.at
			out = append(out, f)
		}
	}
	return out
}

// failure returns the failure of a change, or one without an error.
func (w *applyRun) failure(c *change) dataplane.Failure {
	if err := w.errs[c.front.at]; err != nil {
		return dataplane.Failure{Err: err, Remedy: w.plane.remedy(err)}
	}
	if c.invalid != nil {
		return dataplane.Failure{Err: c.invalid, Remedy: dataplane.InvalidBackendRemedy}
	}
	for _, v := range c.wanted.Servers {
		if v == nil {
			continue
		}
		if remedy, lacks := w.plane.balancer.MissingScheduler(v.Scheduler); lacks {
			return dataplane.Failure{Err: fmt.Errorf("scheduler %s: %w; rr is used", v.Scheduler, dataplane.ErrNotSupported), Remedy: remedy}
		}
	}
	return dataplane.Failure{}
}

func (p *Plane) remedy(err error) string {
	if of, ok := errors.AsType[*dataplane.NodeError](err); ok {
		return of.Remedy
	}
	if errors.Is(err, unix.EPERM) {
		return "run the agent with CAP_NET_ADMIN"
	}
	return p.balancer.Remedy(err)
}
