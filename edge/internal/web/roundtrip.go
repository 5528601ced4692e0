package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"

	"portolan.dev/services/backends"
)

// poolTransport sends each request of the reference to a backend of the pool.
type poolTransport struct{ set *settings }

// RoundTrip implements http.RoundTripper. If a backend cannot be reached, it tries another one.
func (b *poolTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	x := exchangeOf(r.Context())
	err := errNoBackend
	var tried []*backends.Backend
	for len(tried) < b.set.config.Dialer.MaxAttempts && r.Context().Err() == nil {
		backend := x.pick(tried)
		if backend == nil {
			break
		}
		tried = append(tried, backend)
		var res *http.Response
		res, err = b.attempt(x, r, tried)
		var dial *dialError
		if err == nil || !errors.As(err, &dial) || r.Context().Err() != nil {
			return res, err
		}
		x.fail(err)
	}
	return nil, err
}

// dialTimeoutKey is the key of the time limit of a dial in contexts.
type dialTimeoutKey struct{}

// attempt sends a request to the last of the backends in tried.
func (b *poolTransport) attempt(x *exchange, r *http.Request, tried []*backends.Backend) (*http.Response, error) {
	addr := tried[len(tried)-1].Addr()
	timeout := b.set.config.Dialer.Timeout(b.set.pool, tried)
	ctx := context.WithValue(r.Context(), dialTimeoutKey{}, timeout)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { x.delivered(i.Conn) }})
	out := r.WithContext(ctx)
	u := *r.URL
	u.Host = addr.String()
	out.URL = &u
	if r.Body != nil && r.Body != http.NoBody {
		out.Body = openBody{r.Body}
	}
	return b.set.upstreams.get(b.set.pool, addr).transport.RoundTrip(out)
}

// openBody is a body that the transport does not close after a failed dial, because the next attempt
// sends it. ReverseProxy closes it.
type openBody struct{ io.Reader }

// Close implements io.Closer.
func (openBody) Close() error { return nil }
