package web

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"portolan.dev/services/backends"
)

// maxIdlePerBackend is the number of unused connections that are kept for each backend.
const maxIdlePerBackend = 512

// upstreams holds the connections to all backends.
type upstreams struct {
	config Config

	mu     sync.Mutex
	byAddr map[netip.AddrPort]*upstream
	closed bool
}

// upstream holds the connections to one backend.
type upstream struct {
	transport *http.Transport // of the reference
	idle      idleConns       // of the fast path
}

func newUpstreams(c Config) *upstreams {
	return &upstreams{config: c, byAddr: map[netip.AddrPort]*upstream{}}
}

// get returns the connections to a backend of a pool.
func (u *upstreams) get(pool *backends.Pool, addr netip.AddrPort) *upstream {
	up, added := u.getOrAdd(addr)
	if added && !pool.Has(addr) {
		u.remove(addr) // the backend was removed between Pick and now
	}
	return up
}

func (u *upstreams) getOrAdd(addr netip.AddrPort) (up *upstream, added bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if up := u.byAddr[addr]; up != nil {
		return up, false
	}
	up = &upstream{transport: newTransport(&u.config, addr)}
	up.idle.timeout = u.config.IdleTimeout
	if u.closed {
		up.close()
		return up, false
	}
	u.byAddr[addr] = up
	return up, true
}

// remove closes the idle connections to a backend. Connections in use are closed when they become idle.
func (u *upstreams) remove(addr netip.AddrPort) {
	u.mu.Lock()
	up := u.byAddr[addr]
	delete(u.byAddr, addr)
	u.mu.Unlock()
	if up != nil {
		up.close()
	}
}

func (u *upstreams) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	for addr, up := range u.byAddr {
		up.close()
		delete(u.byAddr, addr)
	}
}

func (u *upstream) close() {
	u.idle.close()
	u.transport.CloseIdleConnections()
}

// newTransport returns the transport of the reference to a backend.
func newTransport(c *Config, addr netip.AddrPort) *http.Transport {
	t := &http.Transport{
		DialContext:            dialFor(c, addr),
		DisableCompression:     true,
		ExpectContinueTimeout:  time.Second,
		IdleConnTimeout:        c.IdleTimeout,
		MaxIdleConns:           maxIdlePerBackend,
		MaxIdleConnsPerHost:    maxIdlePerBackend,
		MaxResponseHeaderBytes: int64(c.MaxHeaderBytes),
		Protocols:              new(http.Protocols),
	}
	switch c.Protocol {
	case HTTP:
		t.Protocols.SetHTTP1(true)
	case HTTPS:
		t.Protocols.SetHTTP1(true)
		t.TLSClientConfig = c.BackendTLS
		if t.TLSClientConfig == nil {
			t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} // #nosec G402 -- as clouds do unless a CA is given
		}
		t.TLSHandshakeTimeout = c.HeaderTimeout
	case H2C, GRPC:
		t.Protocols.SetUnencryptedHTTP2(true)
	}
	return t
}

// dialFor returns the function with which the reference's transport dials a backend. The context has the time limit of
// the dial.
func dialFor(c *Config, addr netip.AddrPort) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := c.Dialer.Dial(ctx, addr, ctx.Value(dialTimeoutKey{}).(time.Duration))
		if err != nil {
			return nil, &dialError{err}
		}
		return conn, nil
	}
}
