package localproxy

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	"portolan.dev/nodeagent/machine"

	"portolan.dev/services/kit/statestream"
	"portolan.dev/services/kit/wake"
)

const (
	// keepRoutes is the time for which routes stay after the end of the proxy's stream, or after the start
	// of an agent to which no proxy has connected.
	keepRoutes = 10 * time.Second
	// awaitProxy is the time that a proxy has to connect to a restarted agent. It tries at least twice a
	// second.
	awaitProxy = 5 * time.Second
	// retryAfter is the time after which a change of the kernel that failed is tried again.
	retryAfter = time.Second
)

// Options are the settings of Proxies. All fields are required.
type Options struct {
	Node string // name of the node, which must be in the certificate of a proxy
	// Open opens the part of the machine's routing table that has routes for proxies.
	Open func() (machine.LocalRoutes, error)
	// Kernel is set if the node forwards in its kernel. Then Proxies makes addresses local by routes.
	// Otherwise a proxy listens at addresses that the machine has already.
	Kernel bool
	// Addresses returns the addresses that a proxy may serve. live is false if they are from the view on
	// disk, which may lack addresses of newer services.
	Addresses func() (all map[netip.Addr]bool, live bool)
	// Eligible reports whether the node may take traffic of load balancers now.
	Eligible func() bool
	// Changed is called without a lock after the addresses of Served, Kept or Advertised have changed.
	Changed func()
	Metrics prometheus.Registerer
	Log     *slog.Logger
}

// Proxies serves the proxy on the node.
type Proxies struct {
	nodeagentv1.UnsafeLocalProxyServiceServer
	opts   Options
	wake   wake.Signal
	routes machine.LocalRoutes // nil: none are open; used by one goroutine at a time
	// keepRoutes and awaitProxy are the constants, except in tests.
	keepRoutes, awaitProxy time.Duration

	mu       sync.Mutex
	stopping func() bool // reports whether the agent stops
	state
}

var _ nodeagentv1.LocalProxyServiceServer = (*Proxies)(nil)

// state is the state of the proxy and of its addresses.
type state struct {
	current  *statestream.Stream // of the proxy; nil: there is none
	since    time.Time
	wanted   map[netip.Addr]bool // by the last message
	ready    []netip.Addr        // likewise
	draining bool
	local    map[netip.Addr]bool   // local to the node, by a route or already before
	errs     map[netip.Addr]string // the reasons why other wanted addresses are not local
	served   []netip.Addr          // ordered
	// awaits is set if the agent has found routes at its start, until a proxy connects or awaitProxy is over.
	awaits bool
}

// New returns the proxies of a node. Open must be called before Run.
func New(o Options) *Proxies {
	p := &Proxies{
		opts: o, wake: wake.New(), keepRoutes: keepRoutes, awaitProxy: awaitProxy, stopping: func() bool { return false },
		state: state{local: map[netip.Addr]bool{}},
	}
	p.register(o.Metrics)
	return p
}

// Open finds the addresses that an earlier agent has made local. If the node no longer forwards in its
// kernel, Open removes their routes.
func (p *Proxies) Open() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = time.Now()
	if !p.opts.Kernel {
		p.warn(RemoveRoutes(p.opts.Open))
	}
	if !p.openRoutes() {
		return
	}
	for _, route := range p.routes.All() {
		p.local[route.Addr()] = true
	}
	p.awaits = len(p.local) > 0
}

// Run makes addresses local until ctx is done. After that the addresses stay local, and Served, Kept and
// Advertised keep their last results, because the proxy goes on serving and the agent's last messages must
// say so.
func (p *Proxies) Run(ctx context.Context) error {
	p.mu.Lock()
	p.stopping = func() bool { return ctx.Err() != nil }
	p.mu.Unlock()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var lost <-chan struct{}
		if p.routes != nil {
			lost = p.routes.Lost()
		}
		select {
		case <-ctx.Done():
			p.closeRoutes()
			return nil
		case <-lost:
			p.warn(p.routes.Read())
		case <-p.wake:
		case <-timer.C:
		}
		if next := p.follow(time.Now()); next > 0 {
			timer.Reset(next)
		}
	}
}

// Wake makes Run check again which addresses services have, and whether the node may take traffic.
func (p *Proxies) Wake() {
	p.wake.Send()
}

// Served returns the addresses at which the proxy takes connections, ordered.
func (p *Proxies) Served() []netip.Addr {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.served
}

// Serves reports whether the proxy takes connections at an address.
func (p *Proxies) Serves(addr netip.Addr) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, found := slices.BinarySearchFunc(p.served, addr, netip.Addr.Compare)
	return found
}

// Kept returns the addresses at which a proxy may have connections, ordered.
func (p *Proxies) Kept() []netip.Addr {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.SortedFunc(maps.Keys(p.local), netip.Addr.Compare)
}

// Awaits reports whether the agent has been restarted and waits for the proxy of its predecessor.
func (p *Proxies) Awaits() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.awaits
}

// Advertised returns the addresses that the node may advertise to routers, ordered. These are the served
// addresses. While a restarted agent waits for its proxy, they are the local addresses, because routers
// would otherwise drop the routes that they have kept over the restart.
func (p *Proxies) Advertised() []netip.Addr {
	if p.Awaits() {
		return p.Kept()
	}
	return p.Served()
}

// setServed computes the served addresses, and reports whether they have changed. The caller holds the
// lock.
func (s *state) setServed() bool {
	var served []netip.Addr
	if s.current != nil && !s.draining {
		for _, addr := range s.ready {
			if s.wanted[addr] && s.local[addr] {
				served = append(served, addr)
			}
		}
	}
	slices.SortFunc(served, netip.Addr.Compare)
	served = slices.Compact(served)
	before := s.served
	s.served = served
	return !slices.Equal(before, served)
}
