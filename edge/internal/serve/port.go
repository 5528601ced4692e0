package serve

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"portolan.dev/services/backends"
	"portolan.dev/services/balancer"

	"portolan.dev/edge/internal/accesslog"
	"portolan.dev/edge/internal/health"
	"portolan.dev/edge/internal/listen"
	"portolan.dev/edge/internal/plan"
)

// port is one planned port, which may not be open yet. The server's lock guards its fields, unless their comment
// says otherwise.
type port struct {
	server   *Server
	frontend netip.AddrPort // never changes
	plan     plan.Port
	pool     *backends.Pool
	group    *health.Group
	ejector  *health.Ejector
	listener *listen.Listener // nil: not open
	handler  handler
	former   []handler // earlier handlers, which drain
	target   accesslog.Target
	log      atomic.Pointer[accesslog.Log] // nil: no access log
	err      error                         // why it is not open
	// logProblem is the reason why there is no access log although the service asks for one; empty: none.
	logProblem string
	accepted   atomic.Uint64 // connections; used by all goroutines
}

// handler serves the connections of a port.
type handler interface {
	handle(c *listen.Conn)
	// update changes the settings of the port.
	update(p *plan.Port)
	// removed is called after a backend was removed from the pool.
	removed(backend netip.AddrPort)
	// shutdown waits until the connections have ended. When ctx ends, it ends the remaining connections. It may
	// be called again while it runs, or later.
	shutdown(ctx context.Context)
}

// newPort returns a port that is not open.
func newPort(s *Server, p plan.Port) *port {
	out := &port{server: s, frontend: p.Frontend, plan: p}
	out.pool = backends.NewPool(backends.Options{Removed: out.backendRemoved})
	out.group = s.opts.Checks.NewGroup(func(backend netip.AddrPort, usable bool) {
		out.pool.SetDown(backend, !usable)
		s.judged.add(p.Service) // perhaps its zone has no usable backend any more
		s.Changed()
	})
	out.ejector = health.NewEjector(health.DefaultEjection, out.pool.Eject)
	out.set(p)
	return out
}

// backendRemoved is called while the port's plan is changed.
func (p *port) backendRemoved(b *backends.Backend) {
	if p.handler != nil {
		p.handler.removed(b.Addr())
	}
	for _, h := range p.former {
		h.removed(b.Addr())
	}
}

// set changes the plan of the port. Established connections keep their settings.
func (p *port) set(next plan.Port) {
	changed := p.plan.Settings != next.Settings // setService keeps the pointer if the settings are equal
	layer := p.handler == nil || p.plan.Settings.BackendProtocol.IsHTTP() != next.Settings.BackendProtocol.IsHTTP()
	p.plan = next
	p.setLog()
	addrs := make([]netip.AddrPort, len(next.Server.Backends))
	for i, real := range next.Server.Backends {
		addrs[i] = real.Addr
	}
	p.pool.Replace(&next.Server)
	p.group.Set(checkSettings(next.Settings), addrs)
	p.ejector.Set(addrs)
	switch {
	case layer:
		p.replaceHandler()
	case changed:
		p.handler.update(&p.plan)
	}
	if p.listener != nil && (layer || changed) {
		p.listener.Set(p.settings())
	}
}

// replaceHandler makes a handler of the plan's layer. Connections of the former handler drain.
func (p *port) replaceHandler() {
	old := p.handler
	if p.plan.Settings.BackendProtocol.IsHTTP() {
		p.handler = newLayer7(p)
	} else {
		p.handler = newLayer4(p)
	}
	if old == nil {
		return
	}
	p.former = append(p.former, old)
	p.server.drain(p.plan.Server.Drain, old.shutdown, func() {
		p.former = slices.DeleteFunc(p.former, func(h handler) bool { return h == old })
	})
}

// settings returns the settings of the port's listener.
func (p *port) settings() *listen.Settings {
	h := p.handler
	s := &listen.Settings{
		Handle: func(c *listen.Conn) {
			p.accepted.Add(1)
			h.handle(c)
		},
		Restricted: p.plan.Restricted, Sources: p.plan.Allowed, ProxyFrom: p.plan.Settings.ProxyFrom,
		MaxConnections: p.server.opts.Limits.Connections, MaxPerClient: p.server.opts.Limits.PerClient,
	}
	if p.plan.TLS {
		own := *p.plan.Settings
		own.Certificates = p.plan.Certificates
		s.TLS = p.server.opts.Certs.Server(p.plan.Service.Namespace, &own, own.BackendProtocol.IsHTTP())
	}
	return s
}

// open opens the port.
func (p *port) open() (err error) {
	o := p.server.opts
	p.listener, err = listen.Open(p.plan.Frontend, listen.Options{
		Log: o.Log, HandshakeTimeout: o.Limits.Handshake, MaxUnfinished: o.Limits.Handshakes, Refused: p.server.metrics.refused,
		Control: o.Agent.Control,
	}, p.settings())
	return err
}

// close closes the port. Established connections may continue for the limit.
func (p *port) close(limit time.Duration) {
	if p.listener != nil {
		p.listener.Close() //nolint:errcheck // the port is gone in any case
	}
	handlers := append(slices.Clone(p.former), p.handler)
	p.server.drain(limit, func(ctx context.Context) {
		var all sync.WaitGroup
		for _, h := range handlers {
			all.Go(func() { h.shutdown(ctx) })
		}
		all.Wait()
	}, func() {
		delete(p.server.draining, p)
		p.pool.Replace(nil)
		p.group.Close()
		p.ejector.Close()
		p.closeLog()
	})
}

// dialer returns the dialer of backends, which reports failed dials to the ejector.
func (p *port) dialer() backends.Dialer {
	return backends.Dialer{Failed: func(backend netip.AddrPort, err error) {
		p.ejector.Failure(backend)
		p.server.metrics.dialFailures.Inc()
		p.server.opts.Log.Debug("dial of a backend failed", "frontend", p.frontend, "backend", backend, "err", err)
	}}
}

// connections returns the number of the port's connections.
func (p *port) connections() int {
	if p.listener == nil {
		return 0
	}
	return p.listener.Connections()
}

// checkSettings returns the settings of the checks of a service.
func checkSettings(s *balancer.Settings) health.Settings {
	c := s.Check
	if !c.Enabled {
		return health.Settings{}
	}
	protocol := map[balancer.CheckProtocol]health.Protocol{
		balancer.CheckTCP: health.TCP, balancer.CheckSSL: health.TLS, balancer.CheckHTTP: health.HTTP, balancer.CheckHTTPS: health.HTTPS,
		balancer.CheckGRPC: health.GRPC,
	}[c.Protocol]
	return health.Settings{
		Protocol: protocol, Path: c.Path, Port: uint16(c.Port), // #nosec G115 -- a port
		Interval: c.Interval, Timeout: c.Timeout, Healthy: c.Healthy, Unhealthy: c.Unhealthy,
	}
}
