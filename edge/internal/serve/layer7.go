package serve

import (
	"context"
	"net/http"
	"net/netip"

	"portolan.dev/services/balancer"

	"portolan.dev/edge/internal/accesslog"
	"portolan.dev/edge/internal/listen"
	"portolan.dev/edge/internal/plan"
	"portolan.dev/edge/internal/web"
)

// layer7 is the handler of layer 7, which serves requests.
type layer7 struct {
	port   *port
	server *web.Server
}

func newLayer7(p *port) *layer7 {
	h := &layer7{port: p}
	h.server = web.New(p.pool, h.configOf(&p.plan), p.server.opts.Log)
	return h
}

var protocols = map[balancer.BackendProtocol]web.Protocol{
	balancer.BackendHTTP: web.HTTP, balancer.BackendHTTPS: web.HTTPS, balancer.BackendH2C: web.H2C, balancer.BackendGRPC: web.GRPC,
}

func (h *layer7) configOf(p *plan.Port) web.Config {
	limits := h.port.server.opts.Limits
	return web.Config{
		Protocol: protocols[p.Settings.BackendProtocol], BackendTLS: h.port.server.opts.Certs.Client(p.Service.Namespace, p.Settings),
		IdleTimeout: p.Settings.IdleTimeout, HeaderTimeout: limits.Handshake, MaxHeaderBytes: limits.MaxHeaderSize,
		Dialer: h.port.dialer(), Record: h.record, Details: p.Settings.AccessLog.Enabled,
	}
}

func (h *layer7) handle(c *listen.Conn) {
	h.server.Serve(c)
}

func (h *layer7) update(p *plan.Port) {
	if p.Settings.BackendProtocol.IsHTTP() { // otherwise the connections that remain keep their settings
		h.server.Update(h.configOf(p))
	}
}

func (h *layer7) removed(backend netip.AddrPort) { h.server.BackendRemoved(backend) }

func (h *layer7) shutdown(ctx context.Context) { h.server.Shutdown(ctx) }

// record judges the backend of a request that has ended, and writes the request into the access log if there is one.
// Statuses by which a proxy says that its own backend fails are no answers.
func (h *layer7) record(r *web.Record) {
	h.port.server.metrics.answered(r.Status, r.Ending)
	switch r.BackendStatus {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		h.port.ejector.Failure(r.Backend)
	default:
		h.port.judge(r.Backend, r.Ending, r.BackendStatus != 0)
	}
	log := h.port.log.Load()
	if log == nil {
		return
	}
	log.Record(&accesslog.Record{
		Time: r.Time, Port: h.port.frontend.Port(), Client: r.Client, Backend: r.Backend,
		RequestTime: r.RequestTime, BackendTime: r.BackendTime, ResponseTime: r.ResponseTime,
		Ending: r.Ending, Status: r.Status, BackendStatus: r.BackendStatus, Received: r.Received, Sent: r.Sent,
		Request:   accesslog.Request{Method: r.Method, Scheme: r.Scheme, Host: r.Host, URI: r.URI, Protocol: r.Proto},
		UserAgent: r.UserAgent, TLSVersion: r.TLSVersion, CipherSuite: r.TLSCipher,
	})
}
