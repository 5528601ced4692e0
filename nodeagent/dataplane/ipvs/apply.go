package ipvs

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
	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/plan"
)

var (
	errClosed  = errors.New("the data plane is closed")
	errForeign = errors.New("the kernel has a virtual server there that is not ours")
	errGone    = errors.New("a virtual server of ours has vanished from the kernel")
)

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
	if err := p.filter.SetSources(s.Pods, s.Node); err != nil {
		return err
	}
	var c kernel.Change
	for _, f := range p.fronts {
		now := f.filter(s.Node)
		c.Remove = append(c.Remove, without(f.elements, now)...)
		c.Add = append(c.Add, without(now, f.elements)...)
		f.elements = now
	}
	if err := p.filter.Commit(c); err != nil {
		return err
	}
	p.sources = s
	return nil
}

// work is one call of Apply.
type work struct {
	plane *Plane
	order []plan.Frontend
	steps map[plan.Frontend][]plan.Step
	errs  map[plan.Frontend]error
	flows []kernel.Flow // to be forgotten
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
		known := len(w.plane.missing)
		var ops []op
		for _, f := range fronts {
			ops = w.arrivals(ops, f)
		}
		w.execute(ops)
		if len(w.plane.missing) == known {
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
	if len(w.flows) > 0 {
		if err := w.plane.conntrack.Forget(w.flows); err != nil {
			w.plane.log.Warn("flows to removed backends may go on", "err", err)
		}
	}
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
		if err := p.filter.Commit(kernel.Change{Add: []kernel.Element{kernel.Virtual(addr)}}); err != nil {
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
func (w *work) rules(fronts []*front) (late kernel.Change) {
	var early kernel.Change
	for _, f := range fronts {
		now := f.filter(w.plane.sources.Node)
		added, removed := without(now, f.elements), without(f.elements, now)
		f.elements = now
		for _, e := range added {
			switch e.Set {
			case kernel.SplitMap, kernel.DropInside, kernel.DropOutside:
				late.Add = append(late.Add, e)
			default:
				early.Add = append(early.Add, e)
			}
		}
		for _, e := range removed {
			replaced := slices.ContainsFunc(added, func(a kernel.Element) bool { return a.Set == e.Set && a.Key == e.Key })
			if replaced && e.Set != kernel.SplitMap {
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
func without(a, b []kernel.Element) []kernel.Element {
	known := make(map[kernel.Element]bool, len(b))
	for _, e := range b {
		known[e] = true
	}
	var out []kernel.Element
	for _, e := range a {
		if !known[e] {
			out = append(out, e)
		}
	}
	return out
}

// op is a message to the kernel, and what it means for the mirror when it has
// worked.
type op struct {
	request
	front plan.Frontend
	id    serviceID
	sched string
	done  func()
}

// arrivals appends what brings services and backends to what they should be,
// as far as nothing goes.
func (w *work) arrivals(ops []op, f *front) []op {
	p := w.plane
	for id, v := range f.wanted() {
		want := p.settingsOf(v)
		have := p.services[id]
		switch {
		case have == nil:
			have = &service{front: f.at, backends: map[netip.AddrPort]*backend{}}
			ops = append(ops, op{serviceRequest(cmdNewService, id, want), f.at, id, want.scheduler, func() {
				have.settings = want
				p.services[id] = have
			}})
		case have.settings != want:
			ops = append(ops, op{serviceRequest(cmdSetService, id, want), f.at, id, want.scheduler, func() { have.settings = want }})
		}
		have.drain = v.Drain
		for _, r := range v.Reals {
			ops = w.arrival(ops, f, id, have, r)
		}
	}
	return ops
}

func (w *work) arrival(ops []op, f *front, id serviceID, s *service, r plan.RealServer) []op {
	b := s.backends[r.Addr]
	if b != nil && b.weight == r.Weight {
		s.leave(b, time.Time{})
		return ops
	}
	cmd := uint8(cmdNewDest)
	if b != nil {
		cmd = cmdSetDest
	}
	return append(ops, op{destRequest(cmd, id, r.Addr, r.Weight), f.at, id, "", func() {
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
		s := w.plane.services[id]
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
			ops = w.departure(ops, f, id, s, addr, drains)
		}
		if v == nil && left == 0 {
			ops = append(ops, op{deleteService(id), f.at, id, "", func() { delete(w.plane.services, id) }})
		}
	}
	return ops
}

func (w *work) departure(ops []op, f *front, id serviceID, s *service, addr netip.AddrPort, drains bool) []op {
	b := s.backends[addr]
	if !drains {
		if f.at.Protocol == plan.UDP {
			w.flows = append(w.flows, kernel.Flow{Frontend: f.at.Addr, Protocol: uint8(f.at.Protocol), Backend: addr.Addr()})
		}
		return append(ops, op{destRequest(cmdDelDest, id, addr, 0), f.at, id, "", func() { s.forget(addr) }})
	}
	if b.until.IsZero() {
		s.leave(b, clock().Add(s.drain))
		w.plane.watch()
	}
	if b.weight == 0 {
		return ops
	}
	return append(ops, op{destRequest(cmdSetDest, id, addr, 0), f.at, id, "", func() { b.weight = 0 }})
}

// settingsOf are the kernel's for a virtual server.
func (p *Plane) settingsOf(v *plan.VirtualServer) settings {
	s := settings{scheduler: v.Scheduler.String()}
	if s.scheduler == "" {
		s.scheduler = plan.RoundRobin.String()
	}
	if s.scheduler == plan.RoundRobin.String() && weighted(v.Reals) {
		s.scheduler = "wrr"
	}
	if p.missing[s.scheduler] {
		s.scheduler = plan.RoundRobin.String()
	}
	if s.scheduler == plan.SourceHash.String() || s.scheduler == plan.Maglev.String() {
		if v.Flags&plan.HashFallback != 0 {
			s.flags |= flagFallback
		}
		if v.Flags&plan.HashPort != 0 {
			s.flags |= flagSourcePort
		}
	}
	if v.Affinity > 0 {
		s.flags |= flagPersistent
		s.timeout = max(1, uint32(v.Affinity/time.Second))
	}
	return s
}

// weighted tells whether backends that take traffic differ in weight.
func weighted(reals []plan.RealServer) bool {
	var first uint32
	for _, r := range reals {
		switch {
		case r.Weight == 0:
		case first == 0:
			first = r.Weight
		case r.Weight != first:
			return true
		}
	}
	return false
}

// execute sends messages and takes in what became of them.
func (w *work) execute(ops []op) {
	if len(ops) == 0 {
		return
	}
	requests := make([]request, len(ops))
	for i, o := range ops {
		requests[i] = o.request
	}
	for i, err := range w.plane.sock.do(requests) {
		if err = w.judge(&ops[i], err); err != nil {
			w.fail(ops[i].front, err)
			continue
		}
		ops[i].done()
	}
}

// judge turns the kernel's answer into an error of ours, or into none where all
// is as it was meant to be.
func (w *work) judge(o *op, err error) error {
	p := w.plane
	switch {
	case err == nil || done(o.cmd, err) && (o.cmd == cmdDelService || o.cmd == cmdDelDest):
		return nil
	case o.sched != "" && o.sched != plan.RoundRobin.String() && errors.Is(err, unix.ENOENT):
		p.missing[o.sched] = true
		return fmt.Errorf("scheduler %s: %w", o.sched, err)
	case o.cmd == cmdNewService && errors.Is(err, unix.EEXIST):
		return fmt.Errorf("%s: %w", o.id, errForeign)
	case errors.Is(err, unix.ESRCH) && o.cmd != cmdNewService && p.services[o.id] != nil:
		delete(p.services, o.id) // the next try makes it anew
		return fmt.Errorf("%s: %w", o.id, errGone)
	case o.cmd == cmdNewDest && errors.Is(err, unix.EEXIST), o.cmd == cmdSetDest && errors.Is(err, unix.ENOENT):
		p.reread(o.id)
		return fmt.Errorf("%s: %w", o.id, errors.Join(errGone, err))
	}
	return fmt.Errorf("%s: %w", o.id, err)
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
				out = append(out, dataplane.Failure{Step: s, Err: err, Remedy: remedy(err)})
				continue
			}
			if s.Server != nil && w.plane.missing[s.Server.Scheduler.String()] {
				out = append(out, dataplane.Failure{
					Step: s, Err: fmt.Errorf("scheduler %s: %w; rr is used", s.Server.Scheduler, dataplane.ErrNotSupported),
					Remedy: fmt.Sprintf("load the kernel module ip_vs_%s", s.Server.Scheduler),
				})
			}
		}
	}
	return out
}

func remedy(err error) string {
	switch {
	case errors.Is(err, errForeign):
		return "see who made it: ipvsadm -Ln; the agent never touches what it did not set up"
	case errors.Is(err, unix.EPERM):
		return "run the agent with CAP_NET_ADMIN"
	}
	return ""
}
