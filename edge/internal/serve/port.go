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
	"portolan.dev/edge/internal/ending"
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
	handlers [layers]handler  // nil: no connection of the layer has come yet
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
	for _, h := range p.used() {
		h.removed(b.Addr())
	}
}

// used returns the handlers that may have connections.
func (p *port) used() []handler {
	return slices.DeleteFunc(slices.Clone(p.handlers[:]), func(h handler) bool { return h == nil })
}

// set changes the plan of the port. The column "from" of the table of annotations says when each setting takes effect.
func (p *port) set(next plan.Port) {
	before := p.plan
	p.plan = next
	p.setLog()
	addrs := make([]netip.AddrPort, len(next.Server.Backends))
	for i, real := range next.Server.Backends {
		addrs[i] = real.Addr
	}
	p.pool.Replace(&next.Server)
	p.group.Set(checkSettings(next.Settings), addrs)
	p.ejector.Set(addrs)
	if before.Settings != next.Settings { // setService keeps the pointer if the settings are equal
		for _, h := range p.used() {
			h.update(&p.plan)
		}
	}
	if p.listener != nil && !sameAdmission(&before, &next) {
		p.listener.Set(p.settings())
	}
}

// sameAdmission reports whether two plans of a port treat new connections alike.
func sameAdmission(a, b *plan.Port) bool {
	return a.Settings == b.Settings && a.TLS == b.TLS && slices.Equal(a.Certificates, b.Certificates) &&
		a.Restricted == b.Restricted && slices.Equal(a.Allowed, b.Allowed)
}

// layer is an index of a port's handlers.
type layer int

const (
	layerStream layer = iota // layer 4
	layerWeb                 // layer 7
	layers
)

func layerOf(s *balancer.Settings) layer {
	if s.BackendProtocol.IsHTTP() {
		return layerWeb
	}
	return layerStream
}

// handler returns the handler of the plan's layer. Connections that came under the other layer keep its handler, because
// their clients have begun to speak as it expects.
func (p *port) handler() handler {
	l := layerOf(p.plan.Settings)
	if p.handlers[l] == nil {
		if l == layerWeb {
			p.handlers[l] = newLayer7(p)
		} else {
			p.handlers[l] = newLayer4(p)
		}
	}
	return p.handlers[l]
}

// settings returns the settings of the port's listener.
func (p *port) settings() *listen.Settings {
	h := p.handler()
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
	handlers := p.used()
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

// judge reports the end of a connection or a request to the ejector. Clients and the edge itself end them too, which says
// nothing about the backend. Failed dials are reported by the dialer.
func (p *port) judge(backend netip.AddrPort, end ending.Ending, answered bool) {
	switch {
	case end.BackendFailed():
		p.ejector.Failure(backend)
	case answered:
		p.ejector.Success(backend)
	}
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
