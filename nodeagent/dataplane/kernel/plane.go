package kernel

import (
	"errors"
	"log/slog"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"time"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/dataplane/host"
	"portolan.dev/nodeagent/dataplane/kernelmode"
	"portolan.dev/nodeagent/dataplane/userspace"
	"portolan.dev/nodeagent/plan"

	"portolan.dev/services/kit/wake"
)

// Options are the settings of a Plane.
type Options = kernelmode.Options

// Plane is a data plane around a balancer of the kernel. It is safe for concurrent use.
type Plane struct {
	opts   Options
	host   Host
	log    *slog.Logger
	name   string
	traits Traits
	// loopback serves frontends on loopback addresses, because their packets cannot leave the node.
	loopback *userspace.Plane
	stop     chan struct{}
	stopped  chan struct{}
	wake     wake.Signal // a backend drains
	auditing sync.Mutex  // held while all servers are read; taken before mu

	// mu guards the fields below.
	mu          sync.Mutex
	closed      bool
	balancer    Balancer
	filter      PacketFilter
	routes      RouteTable
	conntrack   FlowTable
	journal     *Journal
	progress    *Journal // see progress.go
	settings    []kernelmode.Setting
	sources     plan.Sources
	fronts      map[plan.Frontend]*frontendState
	services    map[plan.Frontend]*service        // the plane's servers in the kernel, by the balancer's address
	draining    map[*service]bool                 // services to be removed, or with backends that may drain
	uncertain   map[plan.Frontend]uncertainServer // servers that may exist in the kernel, by the balancer's address
	standIns    standIns
	ranges      []netip.Prefix      // ranges of virtual addresses that share one route
	routedAddrs map[netip.Addr]int  // number of frontends by virtual address with a route of its own
	audit       *audit              // the audit in progress; nil: none
	locals      map[netip.Addr]bool // addresses of the node, during Apply
}

var (
	_ dataplane.Plane          = (*Plane)(nil)
	_ dataplane.AffinityKeeper = (*Plane)(nil)
)

// New returns a plane in the kernel of this machine, which must be Linux. It takes over the state that an
// earlier process has left in the kernel, without changing it. It opens the balancer in the namespace of the
// options.
func New(o Options, open func() (Balancer, error)) (*Plane, error) {
	return NewOn(linux{netns: o.Namespace}, o, open)
}

// NewOn does the same as New on another host.
func NewOn(h Host, o Options, open func() (Balancer, error)) (*Plane, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	p := &Plane{
		opts: o, host: h, log: o.Log, stop: make(chan struct{}), stopped: make(chan struct{}), wake: wake.New(),
		fronts: map[plan.Frontend]*frontendState{}, services: map[plan.Frontend]*service{}, standIns: newStandIns(),
		routedAddrs: map[netip.Addr]int{}, draining: map[*service]bool{}, uncertain: map[plan.Frontend]uncertainServer{},
	}
	if err := host.Within(o.Namespace, func() error { return p.open(open) }); err != nil {
		p.free()
		return nil, err
	}
	if err := p.adopt(); err != nil {
		p.free()
		return nil, err
	}
	p.loopback = userspace.New(userspace.Options{Log: o.Log})
	go p.maintain()
	return p, nil
}

// open opens everything that belongs to the namespace of the calling thread.
func (p *Plane) open(balancer func() (Balancer, error)) error {
	b, err := balancer()
	if err != nil { // b may be a nil pointer
		return err
	}
	p.balancer = b
	p.name, p.traits = p.balancer.Name(), p.balancer.Traits()
	if p.routes, err = p.host.Routes(); err != nil {
		return err
	}
	if p.conntrack, err = p.host.Flows(); err != nil {
		return err
	}
	if err := p.openJournals(); err != nil {
		return err
	}
	arp, err := p.applyStrictARP()
	if err != nil {
		return err
	}
	p.settings = slices.Concat(
		host.ApplySettings(p.host, host.Forwarding), arp, p.balancer.ApplySettings(p.opts.Timeouts),
		host.ApplySettings(p.host, p.opts.Tracking.Settings(runtime.NumCPU())),
	)
	for _, s := range p.settings {
		if s.Err != nil {
			p.log.Warn("kernel setting", "setting", s.String())
		} else {
			p.log.Info("kernel setting", "setting", s.String())
		}
	}
	var standIns []netip.Prefix
	if !p.traits.SplitsClients {
		standIns = StandIns
	}
	p.filter, err = p.host.Filter(p.opts.ServiceCIDRs, standIns)
	return err
}

// uncertainServer is a server that was to be added and may exist in the kernel. It stays claimed
// until that is known.
type uncertainServer struct {
	id       ID
	unwanted bool // it is not wanted any more
}

// Name implements dataplane.Plane.
func (p *Plane) Name() string { return p.name }

// KeepsAffinity implements dataplane.AffinityKeeper.
func (p *Plane) KeepsAffinity() bool { return p.traits.KeepsAffinity }

// Settings returns the kernel's settings with the results of setting them, and settings of the
// host's advice.
func (p *Plane) Settings() []kernelmode.Setting {
	var looked []kernelmode.Setting
	err := host.Within(p.opts.Namespace, func() error {
		looked = p.host.Advice()
		return nil
	})
	if err != nil {
		p.log.Warn("kernel settings not read", "err", err)
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

// Connections implements dataplane.Plane. If the protocol has no connections, flows count as
// connections.
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

// Close implements dataplane.Plane. The kernel continues to forward.
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
	p.auditing.Lock() // wait for readers to end
	defer p.auditing.Unlock()
	return errors.Join(p.loopback.Close(), p.free())
}

// free closes all open resources.
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
	for _, j := range []*Journal{p.journal, p.progress} {
		if j != nil {
			errs = append(errs, j.Close())
		}
	}
	return errors.Join(errs...)
}

// clock returns the present time, which bounds draining.
func clock() time.Time { return time.Now() }
