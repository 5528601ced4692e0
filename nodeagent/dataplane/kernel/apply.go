package kernel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/plan"
)

var errClosed = errors.New("the data plane is closed")

// Apply implements dataplane.Plane. Steps are first taken together by frontend,
// then carried out for all frontends at once: rules before servers, servers
// before backends, what comes before what goes.
func (p *Plane) Apply(ctx context.Context, steps []plan.Step) []dataplane.Failure {
	local, rest := separate(steps)
	failures := p.loopback.Apply(ctx, local)
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &work{plane: p, steps: map[plan.Frontend][]plan.Step{}, errs: map[plan.Frontend]error{}}
	for _, s := range rest {
		switch {
		case p.closed:
			failures = append(failures, dataplane.Failure{Step: s, Err: errClosed})
		case ctx.Err() != nil:
			failures = append(failures, contextFailure(ctx, s))
		case s.Op == plan.SetSources:
			if err := p.setSources(*s.Sources); err != nil {
				failures = append(failures, dataplane.Failure{Step: s, Err: err, Remedy: filterRemedy})
			}
		default:
			if err := w.take(s); err != nil {
				failures = append(failures, dataplane.Failure{Step: s, Err: err, Remedy: "correct the endpoint"})
			}
		}
	}
	w.run()
	return append(failures, w.failures()...)
}

const filterRemedy = "see what the kernel has: nft list table ip portolan"

// separate splits off the steps of loopback frontends, and gives sources to
// both.
func separate(steps []plan.Step) (local, rest []plan.Step) {
	for _, s := range steps {
		loopback := s.Op != plan.SetSources && s.Key.Addr.Addr().IsLoopback()
		if loopback || s.Op == plan.SetSources {
			local = append(local, s)
		}
		if !loopback {
			rest = append(rest, s)
		}
	}
	return local, rest
}

// setSources changes who is inside, and what depends on the node's addresses.
// What fails is not in force, so that the next audit tries again.
func (p *Plane) setSources(s plan.Sources) error {
	if err := errors.Join(p.filter.SetSources(s.Pods, s.Node), p.balancer.SetSources(s)); err != nil {
		return err
	}
	var c Change
	for _, f := range p.fronts {
		now := f.filter(s.Node, p.traits)
		c.Remove = append(c.Remove, without(f.elements, now)...)
		c.Add = append(c.Add, without(now, f.elements)...)
		f.elements = now
	}
	if err := p.filter.Commit(c); err != nil {
		return err
	}
	p.sources = s
	return p.journal.Put(map[string]any{sourcesKey: s})
}

// work is one call of Apply.
type work struct {
	plane *Plane
	order []plan.Frontend
	steps map[plan.Frontend][]plan.Step
	errs  map[plan.Frontend]error
	flows []Flow // to be forgotten
	again bool   // a scheduler was found missing
}

// take notes what a step wants. An endpoint that makes no sense is left out.
func (w *work) take(s plan.Step) error {
	f := w.plane.fronts[s.Key.Frontend]
	if f == nil {
		if s.Op != plan.AddServer {
			return nil // there is nothing to change
		}
		f = &front{at: s.Key.Frontend}
		w.plane.fronts[s.Key.Frontend] = f
	}
	if w.steps[s.Key.Frontend] == nil {
		w.order = append(w.order, s.Key.Frontend)
	}
	w.steps[s.Key.Frontend] = append(w.steps[s.Key.Frontend], s)
	server := &f.servers[s.Key.Audience]
	var err error
	switch {
	case s.Op == plan.DeleteServer:
		*server = nil
	case s.Op == plan.AddServer:
		*server, err = sane(s.Server)
	case *server == nil: // it could not be programmed
	case s.Op == plan.AddReal && !fits(s.Key.Frontend, s.Real.Addr):
		err = misfit(s.Key.Frontend, s.Real.Addr)
	default:
		*server = (*server).After(s)
	}
	return err
}

// sane leaves out the backends that cannot be.
func sane(v *plan.VirtualServer) (*plan.VirtualServer, error) {
	var errs []error
	next := *v
	next.Reals = nil
	for _, r := range v.Reals {
		if !fits(v.Frontend, r.Addr) {
			errs = append(errs, misfit(v.Frontend, r.Addr))
			continue
		}
		next.Reals = append(next.Reals, r)
	}
	if len(errs) == 0 {
		return v, nil
	}
	return &next, errors.Join(errs...)
}

// fits keeps from the kernel what it would take and turn into garbage.
func fits(f plan.Frontend, backend netip.AddrPort) bool {
	return backend.IsValid() && backend.Port() != 0 && backend.Addr().Is4() == f.Addr.Addr().Is4()
}

func misfit(f plan.Frontend, backend netip.AddrPort) error {
	return fmt.Errorf("backend %s of %s: %w", backend, f, errors.Join(dataplane.ErrNotSupported, unix.EAFNOSUPPORT))
}

// run carries out what was taken.
func (w *work) run() {
	if len(w.order) == 0 {
		return
	}
	fronts := make([]*front, len(w.order))
	for i, at := range w.order {
		fronts[i] = w.plane.fronts[at]
	}
	w.claim(fronts)
	late := w.rules(fronts)
	for range 2 { // the second time with schedulers that the kernel has
		w.again = false
		var ops []op
		for _, f := range fronts {
			ops = w.arrivals(ops, f)
		}
		w.execute(ops)
		if !w.again {
			break
		}
		clear(w.errs)
	}
	w.blame(fronts, w.plane.filter.Commit(late))
	var ops []op
	for _, f := range fronts {
		ops = w.departures(ops, f)
	}
	w.execute(ops)
	w.forget()
	for _, f := range fronts {
		w.plane.settle(f)
	}
}

// claim notes in the journal what becomes ours, and makes virtual addresses
// local.
func (w *work) claim(fronts []*front) {
	p := w.plane
	records := map[string]any{}
	for _, f := range fronts {
		if f.split() && !f.standIn.IsValid() {
			f.standIn = p.standIns.take(f.at.Addr.Addr())
		}
		records[f.at.String()] = f.record()
		if err := p.attract(f); err != nil {
			w.fail(f.at, err)
		}
	}
	w.blame(fronts, p.journal.Put(records))
}

// attract makes the node take packets to a frontend's address for its own.
func (p *Plane) attract(f *front) error {
	addr := f.at.Addr.Addr()
	if f.virtual || f.exposure() == plan.NodePort || len(f.wanted()) == 0 || p.inRange(addr) {
		return nil
	}
	if p.vips[addr] == 0 {
		local, err := p.routes.Local(addr)
		if err != nil || local { // an address of the node is local, and has other sockets
			return err
		}
		if err := p.routes.Add(netip.PrefixFrom(addr, addr.BitLen())); err != nil {
			return err
		}
		if err := p.filter.Commit(Change{Add: []Element{Virtual(addr)}}); err != nil {
			return err
		}
	}
	p.vips[addr]++
	f.virtual = true
	return nil
}

func (p *Plane) inRange(addr netip.Addr) bool {
	return slices.ContainsFunc(p.opts.ServiceCIDRs, func(c netip.Prefix) bool { return c.Contains(addr) })
}

// rules changes the packet filter as far as this has to come before servers,
// and returns the rest: what sends clients elsewhere or turns them away, and
// what goes.
func (w *work) rules(fronts []*front) (late Change) {
	var early Change
	for _, f := range fronts {
		now := f.filter(w.plane.sources.Node, w.plane.traits)
		added, removed := without(now, f.elements), without(f.elements, now)
		f.elements = now
		for _, e := range added {
			switch e.Set {
			case SplitMap, DropInside, DropOutside:
				late.Add = append(late.Add, e)
			default:
				early.Add = append(early.Add, e)
			}
		}
		for _, e := range removed {
			replaced := slices.ContainsFunc(added, func(a Element) bool { return a.Set == e.Set && a.Key == e.Key })
			if replaced && e.Set != SplitMap {
				early.Remove = append(early.Remove, e)
			} else {
				late.Remove = append(late.Remove, e)
			}
		}
	}
	w.blame(fronts, w.plane.filter.Commit(early))
	return late
}

// without returns what is in a and not in b.
func without(a, b []Element) []Element {
	known := make(map[Element]bool, len(b))
	for _, e := range b {
		known[e] = true
	}
	var out []Element
	for _, e := range a {
		if !known[e] {
			out = append(out, e)
		}
	}
	return out
}

// op is an operation, and what it means for the mirror when it has worked.
type op struct {
	Op
	done func()
}

// arrivals appends what brings services and backends to what they should be,
// as far as nothing goes.
func (w *work) arrivals(ops []op, f *front) []op {
	p := w.plane
	for id, v := range f.wanted() {
		want := p.balancer.Settings(v)
		have := p.services[id.Frontend]
		switch {
		case have == nil:
			have = &service{id: id, backends: map[netip.AddrPort]*backend{}}
			ops = append(ops, op{Op{Kind: AddServer, ID: id, Settings: want}, func() {
				have.Settings = want
				p.services[id.Frontend] = have
			}})
		case have.Settings != want:
			ops = append(ops, op{Op{Kind: SetServer, ID: id, Settings: want}, func() { have.Settings = want }})
		}
		have.drain = v.Drain
		if f.at.Protocol == plan.UDP && p.traits.Tracks && !have.takes() { // flows that were refused would be again
			w.flows = append(w.flows, Flow{Frontend: f.at.Addr, Protocol: uint8(f.at.Protocol), Backend: f.at.Addr})
		}
		for _, r := range v.Reals {
			ops = w.arrival(ops, have, r)
		}
	}
	return ops
}

func (w *work) arrival(ops []op, s *service, r plan.RealServer) []op {
	b := s.backends[r.Addr]
	if b != nil && b.weight == r.Weight {
		s.leave(b, time.Time{})
		return ops
	}
	kind := AddBackend
	if b != nil {
		kind = SetBackend
	}
	return append(ops, op{Op{Kind: kind, ID: s.id, Backend: r.Addr, Weight: r.Weight}, func() {
		if b == nil {
			b = &backend{}
			s.backends[r.Addr] = b
		}
		b.weight = r.Weight
		s.leave(b, time.Time{})
	}})
}

// departures appends what takes backends and services away: they drain, or go.
func (w *work) departures(ops []op, f *front) []op {
	wanted := f.wanted()
	for _, id := range f.all() {
		s := w.plane.services[id.Frontend]
		if s == nil {
			continue
		}
		v := wanted[id]
		left := 0
		for _, addr := range slices.SortedFunc(maps.Keys(s.backends), netip.AddrPort.Compare) {
			if v != nil {
				if _, ok := v.Real(addr); ok {
					continue
				}
			}
			drains := f.at.Protocol != plan.UDP && s.drain > 0
			if drains {
				left++
			}
			ops = w.departure(ops, s, addr, drains)
		}
		if v == nil && left == 0 {
			ops = append(ops, w.plane.deletion(s))
		}
	}
	return ops
}

func (w *work) departure(ops []op, s *service, addr netip.AddrPort, drains bool) []op {
	b := s.backends[addr]
	if !drains {
		return append(ops, w.removal(s, addr))
	}
	if b.until.IsZero() {
		s.leave(b, clock().Add(s.drain))
		w.plane.watch()
	}
	if b.weight == 0 {
		return ops
	}
	return append(ops, op{Op{Kind: SetBackend, ID: s.id, Backend: addr}, func() { b.weight = 0 }})
}

// removal takes a backend away for good, with what goes on to it.
func (w *work) removal(s *service, addr netip.AddrPort) op {
	return op{Op{Kind: DeleteBackend, ID: s.id, Backend: addr}, func() {
		s.forget(addr)
		at := s.id.For
		if (at.Protocol == plan.UDP || w.plane.traits.Tracks) && !w.plane.serves(at, addr) {
			w.flows = append(w.flows, Flow{Frontend: at.Addr, Protocol: uint8(at.Protocol), Backend: addr})
		}
	}}
}

// serves tells whether a frontend has a backend for any audience.
func (p *Plane) serves(at plan.Frontend, addr netip.AddrPort) bool {
	f := p.fronts[at]
	return f != nil && slices.ContainsFunc(f.all(), func(id ID) bool {
		s := p.services[id.Frontend]
		return s != nil && s.backends[addr] != nil
	})
}

func (p *Plane) deletion(s *service) op {
	return op{Op{Kind: DeleteServer, ID: s.id}, func() { delete(p.services, s.id.Frontend) }}
}

// execute carries out operations and takes in what became of them.
func (w *work) execute(ops []op) {
	if len(ops) == 0 {
		return
	}
	plain := make([]Op, len(ops))
	for i, o := range ops {
		plain[i] = o.Op
	}
	for i, err := range w.plane.balancer.Apply(plain) {
		if err != nil {
			w.failed(plain[i].ID, err)
			continue
		}
		ops[i].done()
	}
}

// failed draws the consequences of an operation that did not work.
func (w *work) failed(id ID, err error) {
	p := w.plane
	switch {
	case errors.Is(err, ErrNoScheduler):
		w.again = true
	case errors.Is(err, ErrGone):
		delete(p.services, id.Frontend) // the next try makes it anew
	case errors.Is(err, ErrDrifted):
		p.reread(id)
	}
	w.fail(id.For, fmt.Errorf("%s: %w", id, err))
}

// forget cuts what goes on to backends that were removed.
func (w *work) forget() {
	if len(w.flows) == 0 {
		return
	}
	if err := w.plane.conntrack.Forget(w.flows); err != nil {
		w.plane.log.Warn("flows to removed backends may go on", "err", err)
	}
}

func (w *work) fail(at plan.Frontend, err error) {
	if w.errs[at] == nil {
		w.errs[at] = err
	}
}

// blame takes an error to be that of all frontends.
func (w *work) blame(fronts []*front, err error) {
	if err == nil {
		return
	}
	for _, f := range fronts {
		w.fail(f.at, err)
	}
}

// failures are the steps of the frontends that something went wrong with.
func (w *work) failures() []dataplane.Failure {
	var out []dataplane.Failure
	for _, at := range w.order {
		err := w.errs[at]
		for _, s := range w.steps[at] {
			if err != nil {
				out = append(out, dataplane.Failure{Step: s, Err: err, Remedy: w.plane.remedy(err)})
				continue
			}
			if s.Server == nil {
				continue
			}
			if remedy, lacks := w.plane.balancer.Lacks(s.Server.Scheduler); lacks {
				out = append(out, dataplane.Failure{
					Step: s, Err: fmt.Errorf("scheduler %s: %w; rr is used", s.Server.Scheduler, dataplane.ErrNotSupported), Remedy: remedy,
				})
			}
		}
	}
	return out
}

func (p *Plane) remedy(err error) string {
	if errors.Is(err, unix.EPERM) {
		return "run the agent with CAP_NET_ADMIN"
	}
	return p.balancer.Remedy(err)
}
