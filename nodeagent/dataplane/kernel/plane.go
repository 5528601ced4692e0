package kernel

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"time"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/dataplane/userspace"
	"portolan.dev/nodeagent/plan"
)

// Options of the plane.
type Options struct {
	Log *slog.Logger // default: discard
	// Journal is a file that says what is ours when the agent starts again.
	// Empty: what is in the kernel then counts as somebody else's.
	Journal string
	// ServiceCIDRs are the ranges of virtual addresses. One outside of them gets
	// a route of its own.
	ServiceCIDRs []netip.Prefix
	// Namespace is the path of a network namespace; empty: the process's.
	Namespace string
	// Host is the machine around the balancer; nil: this one, Linux.
	Host Host
	// Timeouts are those of a balancer that has connections of its own.
	Timeouts Timeouts
	// Count: what goes through servers is to be counted, where the kernel does not
	// do so anyway.
	Count bool
	// Tracking is about connection tracking.
	Tracking Tracking
	// StrictARP: the node does not answer for virtual addresses on its networks.
	StrictARP bool
	// Before are values that settings had before another plane, whose place this
	// one takes, by their names.
	Before map[string]string
	// From is what another plane forwards, whose place this one takes: it is in
	// force when the plane is there.
	From *plan.State
}

// Plane is a data plane around a balancer of the kernel. It is safe for
// concurrent use.
type Plane struct {
	opts   Options
	log    *slog.Logger
	name   string
	traits Traits
	// loopback serves frontends on loopback addresses, whose packets cannot
	// leave the node.
	loopback *userspace.Plane
	stop     chan struct{}
	stopped  chan struct{}
	kick     chan struct{} // something drains
	auditing sync.Mutex    // of who reads all servers; taken before mu

	// mu guards what follows.
	mu        sync.Mutex
	closed    bool
	balancer  Balancer
	filter    PacketFilter
	routes    RouteTable
	conntrack FlowTable
	journal   *Journal
	settings  []Setting
	sources   plan.Sources
	fronts    map[plan.Frontend]*front
	services  map[plan.Frontend]*service // what is ours in the kernel, by the balancer's address
	draining  map[*service]bool          // those that backends may drain of
	unsure    map[plan.Frontend]doubt    // what may be ours besides, by the balancer's address
	standIns  standIns
	ranges    []netip.Prefix      // virtual addresses with one route for all
	vips      map[netip.Addr]int  // frontends by virtual address that has a route of its own
	audit     *audit              // under way; nil: none is
	locals    map[netip.Addr]bool // addresses of the node, while something is applied
}

var _ dataplane.Plane = (*Plane)(nil)

// New takes up what an earlier process has left in the kernel, and changes
// nothing about it. The balancer is opened in the namespace of the options.
func New(o Options, open func() (Balancer, error)) (*Plane, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Host == nil {
		o.Host = linux{o.Namespace}
	}
	p := &Plane{
		opts: o, log: o.Log, stop: make(chan struct{}), stopped: make(chan struct{}), kick: make(chan struct{}, 1),
		fronts: map[plan.Frontend]*front{}, services: map[plan.Frontend]*service{}, standIns: newStandIns(),
		vips: map[netip.Addr]int{}, draining: map[*service]bool{}, unsure: map[plan.Frontend]doubt{},
	}
	if err := Within(o.Namespace, func() error { return p.open(open) }); err != nil {
		p.free()
		return nil, err
	}
	if err := p.adopt(); err != nil {
		p.free()
		return nil, err
	}
	p.loopback = userspace.New(userspace.Options{Log: o.Log})
	go p.attend()
	return p, nil
}

// open opens everything that belongs to the namespace of the calling thread.
func (p *Plane) open(balancer func() (Balancer, error)) error {
	b, err := balancer()
	if err != nil { // b may be a pointer to nothing
		return err
	}
	p.balancer = b
	p.name, p.traits = p.balancer.Name(), p.balancer.Traits()
	if p.routes, err = p.opts.Host.Routes(); err != nil {
		return err
	}
	if p.conntrack, err = p.opts.Host.Flows(); err != nil {
		return err
	}
	if p.journal, err = OpenJournal(p.opts.Journal); err != nil {
		return err
	}
	arp, err := p.settleARP()
	if err != nil {
		return err
	}
	p.settings = slices.Concat(
		settle(p.opts.Host, Forwarding), arp, p.balancer.Settle(p.opts.Timeouts),
		settle(p.opts.Host, p.opts.Tracking.settings(runtime.NumCPU())),
	)
	for _, s := range p.settings {
		if s.Err != nil {
			p.log.Warn("kernel setting", "setting", s.String())
		} else {
			p.log.Info("kernel setting", "setting", s.String())
		}
	}
	var standIns []netip.Prefix
	if !p.traits.Splits {
		standIns = StandIns
	}
	p.filter, err = p.opts.Host.Filter(p.opts.ServiceCIDRs, standIns)
	return err
}

// doubt is a server that was to be added, and that the kernel may have. It stays
// claimed until that is known.
type doubt struct {
	id       ID
	unwanted bool // by now
}

// Name implements dataplane.Plane.
func (p *Plane) Name() string { return p.name }

// Settings tells what became of the kernel's settings, and what those look like
// that the plane leaves alone.
func (p *Plane) Settings() []Setting {
	var looked []Setting
	err := Within(p.opts.Namespace, func() error {
		looked = p.opts.Host.Advice()
		return nil
	})
	if err != nil {
		p.log.Warn("kernel settings not looked at", "err", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Concat(p.settings, looked)
}

// Programmed implements dataplane.Plane.
func (p *Plane) Programmed(key plan.Key) *plan.VirtualServer {
	if key.Addr.Addr().IsLoopback() {
		return p.loopback.Programmed(key)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.fronts[key.Frontend]; f != nil {
		return f.servers[key.Audience]
	}
	return nil
}

// Connections implements dataplane.Plane. Flows count as connections where the
// protocol has none.
func (p *Plane) Connections(keys ...plan.Key) map[plan.Key]map[netip.AddrPort]uint32 {
	out := p.loopback.Connections(keys...)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return out
	}
	ids := map[plan.Key][]ID{}
	var all []ID
	for _, key := range keys {
		if f := p.fronts[key.Frontend]; f != nil {
			ids[key] = f.ids(key.Audience)
			all = append(all, ids[key]...)
		}
	}
	if len(all) == 0 {
		return out
	}
	found, err := p.balancer.Backends(all...)
	if err != nil {
		p.log.Warn("connections not read", "servers", len(all), "err", err)
	}
	for key, of := range ids {
		out[key] = map[netip.AddrPort]uint32{}
		for _, id := range of {
			for _, b := range found[id.Frontend] {
				out[key][b.Addr] += b.Connections
			}
		}
	}
	return out
}

// Close implements dataplane.Plane: the kernel goes on forwarding.
func (p *Plane) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	p.mu.Unlock()
	close(p.stop)
	<-p.stopped
	p.auditing.Lock() // whoever reads has to end
	defer p.auditing.Unlock()
	return errors.Join(p.loopback.Close(), p.free())
}

// free closes what is open.
func (p *Plane) free() error {
	var errs []error
	if p.balancer != nil {
		p.balancer.Close()
	}
	if p.routes != nil {
		p.routes.Close()
	}
	if p.conntrack != nil {
		p.conntrack.Close()
	}
	if p.filter != nil {
		errs = append(errs, p.filter.Close())
	}
	if p.journal != nil {
		errs = append(errs, p.journal.Close())
	}
	return errors.Join(errs...)
}

// clock is now; drains are bounded by it.
func clock() time.Time { return time.Now() }

// contextFailure says that there was no time for a step.
func contextFailure(ctx context.Context, s plan.Step) dataplane.Failure {
	return dataplane.Failure{Step: s, Err: context.Cause(ctx)}
}
