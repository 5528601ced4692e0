package userspace

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/backends"
)

// Options configure a Plane. The zero value of a field selects its default.
type Options struct {
	Log     *slog.Logger          // default: discard
	Metrics prometheus.Registerer // default: none
	// Ranges are the ranges in which the plane may listen. A frontend outside of them fails with
	// ErrNotSupported. Default: all addresses.
	Ranges []netip.Prefix
	// Locals makes the addresses of frontends local, except node ports. Close closes it. Default: the addresses
	// must be local.
	Locals Locals

	// MaxAttempts is the maximum number of backends that are dialled for one connection. Default 5.
	MaxAttempts int
	// FailedFor is the time for which other backends are preferred to one that failed. Default 2 s.
	FailedFor time.Duration
	// FlowIdle is the time after which a silent UDP flow ends. Default 60 s.
	FlowIdle time.Duration
	// MaxFlows is the maximum number of UDP flows of one frontend. Default 8192.
	MaxFlows int
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.MaxAttempts == 0 {
		o.MaxAttempts = 5
	}
	if o.FailedFor == 0 {
		o.FailedFor = 2 * time.Second
	}
	if o.FlowIdle == 0 {
		o.FlowIdle = time.Minute
	}
	if o.MaxFlows == 0 {
		o.MaxFlows = 8192
	}
	return o
}

// Plane is the data plane in this process. It is safe for concurrent use.
type Plane struct {
	opts    Options
	metrics *metrics
	dialer  backends.Dialer
	ctx     context.Context //nolint:containedctx // the life of the plane, which ends dials
	cancel  context.CancelFunc
	running sync.WaitGroup // accept loops, connections, flows

	// mu guards the fields below. Locks are taken in the order plane, frontend, pool.
	mu        sync.Mutex
	closed    bool
	sources   plan.Sources
	frontends map[plan.Frontend]*frontend
}

var _ dataplane.Plane = (*Plane)(nil)

// New returns a plane that forwards nothing.
func New(o Options) *Plane {
	o = o.withDefaults()
	p := &Plane{opts: o, metrics: newMetrics(o.Metrics), frontends: map[plan.Frontend]*frontend{}}
	p.dialer = backends.Dialer{
		MaxAttempts: o.MaxAttempts, FailedFor: o.FailedFor,
		Failed: func(netip.AddrPort, error) { p.metrics.dialFailures.Inc() },
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Name implements dataplane.Plane.
func (p *Plane) Name() string { return "userspace" }

// Apply implements dataplane.Plane. It opens or closes the socket of a frontend once, after it has
// changed all pools, so that a swap of backends never closes a port.
func (p *Plane) Apply(ctx context.Context, changed plan.Changes) []dataplane.Failure {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return dataplane.FailAll(changed, errClosed)
	case ctx.Err() != nil:
		return dataplane.FailAll(changed, context.Cause(ctx))
	}
	if changed.Sources != nil {
		p.setSources(*changed.Sources)
	}
	var failures []dataplane.Failure
	for _, f := range changed.Frontends {
		if failure := p.change(f); failure.Err != nil {
			failure.Frontend = f.Frontend
			failures = append(failures, failure)
		}
	}
	return failures
}

// change sets the servers of a frontend. It returns a failure without an error if it succeeds.
func (p *Plane) change(wanted plan.FrontendServers) dataplane.Failure {
	if wanted.Protocol == plan.SCTP && !wanted.Empty() {
		return dataplane.Failure{
			Err:    dataplane.ErrNotSupported,
			Remedy: "SCTP needs a data plane in the kernel: run the agent with --proxy-mode=ipvs or nftables",
		}
	}
	if !wanted.Empty() && !p.mayListen(wanted.Addr.Addr()) {
		return dataplane.Failure{Err: p.errOutside(wanted.Addr.Addr()), Remedy: outsideRemedy}
	}
	var invalid error
	for a, v := range wanted.Servers {
		if v != nil {
			valid, err := dataplane.WithoutInvalidBackends(v)
			wanted.Servers[a] = valid
			invalid = errors.Join(invalid, err)
		}
	}
	f := p.frontends[wanted.Frontend]
	if f == nil {
		f = newFrontend(p, wanted.Frontend)
		p.frontends[wanted.Frontend] = f
	}
	err := f.change(wanted.Servers, p.sources)
	p.removeUnused(f)
	if err != nil {
		return dataplane.Failure{Err: err, Remedy: remedy(wanted.Frontend, err)}
	}
	return dataplane.Failure{Err: invalid, Remedy: dataplane.InvalidBackendRemedy}
}

func (p *Plane) setSources(s plan.Sources) {
	p.sources = s
	for _, f := range p.frontends {
		f.setSources(s)
	}
}

// Reach implements dataplane.Plane. It stores nothing, because the plane does not outlive the
// process.
func (p *Plane) Reach(uint64) {}

// Reached implements dataplane.Plane.
func (p *Plane) Reached() uint64 { return 0 }

// Programmed implements dataplane.Plane. A server is in force if its port is open, or if it has no
// backends and its port is closed.
func (p *Plane) Programmed(key plan.Key) *plan.VirtualServer {
	p.mu.Lock()
	f := p.frontends[key.Frontend]
	p.mu.Unlock()
	if f == nil {
		return nil
	}
	return f.programmed(key.Audience)
}

// State implements dataplane.Plane. It also makes addresses local again, because no step would do that.
func (p *Plane) State(context.Context) (*plan.State, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.opts.Locals != nil && !p.closed {
		if err := p.opts.Locals.Check(); err != nil {
			return nil, err
		}
	}
	state := &plan.State{Sources: p.sources, Servers: map[plan.Key]*plan.VirtualServer{}}
	for key, f := range p.frontends {
		for _, a := range plan.Audiences {
			if v := f.programmed(a); v != nil {
				state.Servers[plan.Key{Frontend: key, Audience: a}] = v
			}
		}
	}
	return state, nil
}

// Connections implements dataplane.Plane. UDP flows count as connections.
func (p *Plane) Connections(keys ...plan.Key) map[plan.Key]map[netip.AddrPort]uint32 {
	out := make(map[plan.Key]map[netip.AddrPort]uint32, len(keys))
	for _, key := range keys {
		p.mu.Lock()
		f := p.frontends[key.Frontend]
		p.mu.Unlock()
		if f != nil {
			out[key] = f.connections(key.Audience)
		}
	}
	return out
}

// Close implements dataplane.Plane. It closes all ports and ends all connections. It returns after
// all goroutines of the plane have ended.
func (p *Plane) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	p.cancel()
	for _, f := range p.frontends {
		f.close()
	}
	p.mu.Unlock()
	p.running.Wait()
	if p.opts.Locals == nil {
		return nil
	}
	return p.opts.Locals.Close()
}

// sweep removes a frontend that was deleted and has no connections left.
func (p *Plane) sweep(key plan.Frontend) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.frontends[key]; f != nil {
		p.removeUnused(f)
	}
}

// removeUnused removes a frontend that has no servers and no connections.
func (p *Plane) removeUnused(f *frontend) {
	if f.unused() {
		delete(p.frontends, f.key)
		f.releaseLocal()
	}
}
