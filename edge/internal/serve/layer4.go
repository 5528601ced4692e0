package serve

import (
	"context"
	"net/netip"
	"time"

	"portolan.dev/services/balancer"

	"portolan.dev/edge/internal/accesslog"
	"portolan.dev/edge/internal/listen"
	"portolan.dev/edge/internal/plan"
	"portolan.dev/edge/internal/stream"
)

// layer4 is the handler of layer 4, which passes bytes on.
type layer4 struct {
	port   *port
	server *stream.Server
}

func newLayer4(p *port) *layer4 {
	h := &layer4{port: p}
	h.server = stream.New(stream.Options{Log: p.server.opts.Log, Pool: p.pool, Dialer: p.dialer(), Finished: h.finished}, h.settings(&p.plan))
	return h
}

var headers = map[balancer.ProxyProtocol]stream.Header{
	balancer.ProxyNone: stream.NoHeader, balancer.ProxyV1: stream.V1, balancer.ProxyV2: stream.V2,
}

func (h *layer4) settings(p *plan.Port) *stream.Settings {
	return &stream.Settings{
		Header: headers[p.Settings.ProxyProtocol], BackendTLS: h.port.server.opts.Certs.Client(p.Service.Namespace, p.Settings),
		IdleTimeout: p.Settings.IdleTimeout,
	}
}

func (h *layer4) handle(c *listen.Conn) { h.server.Handle(c) }

func (h *layer4) update(p *plan.Port) { h.server.Set(h.settings(p)) }

// removed does nothing: the pool ends connections itself.
func (h *layer4) removed(netip.AddrPort) {}

func (h *layer4) shutdown(ctx context.Context) { h.server.Shutdown(ctx) }

// finished judges the backend of a connection that has ended, and writes the connection into the access log if there is
// one. A backend that has sent bytes has served the connection, because many protocols end by a reset. One that has got no
// bytes of the client had nothing to serve.
func (h *layer4) finished(r *stream.Record) {
	switch {
	case r.Sent > 0:
		h.port.ejector.Success(r.Backend)
	case r.Received > 0:
		h.port.judge(r.Backend, r.Ending, false)
	}
	h.port.server.metrics.ended(r.Ending)
	log := h.port.log.Load()
	if log == nil {
		return
	}
	record := &accesslog.Record{
		Time: r.Conn.Accepted, Port: h.port.frontend.Port(), Client: r.Conn.Client, Backend: r.Backend,
		RequestTime: since(r.Conn.Accepted, r.Connected), BackendTime: since(r.Connected, r.FirstByte), ResponseTime: accesslog.Unknown,
		Ending: r.Ending, Received: r.Received, Sent: r.Sent,
	}
	if !r.FirstByte.IsZero() {
		record.ResponseTime = 0 // bytes are passed on as they come
	}
	if r.Conn.TLS != nil {
		state := r.Conn.TLS.ConnectionState()
		record.TLSVersion, record.CipherSuite = state.Version, state.CipherSuite
	}
	log.Record(record)
}

// since returns the time between two events, or accesslog.Unknown if one did not happen.
func since(from, to time.Time) time.Duration {
	if from.IsZero() || to.IsZero() {
		return accesslog.Unknown
	}
	return to.Sub(from)
}
