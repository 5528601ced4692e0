package web

import (
	"context"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"
)

// guardKey is the key of a connection's guard in the contexts of its requests.
type guardKey struct{}

// handler serves the requests of references by httputil.ReverseProxy.
type handler struct{ server *Server }

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	guard := r.Context().Value(guardKey{}).(*guard)
	x := newExchange(h.server.settings.Load(), guard, r)
	defer x.finish()
	rw := newResponseWriter(w, x)
	if r.ProtoMajor == 1 {
		rw.control.SetWriteDeadline(time.Time{}) //nolint:errcheck // that of the end of the last request
		defer rw.limitEnd()
		if refused := guard.refusedRequest(); refused != nil {
			x.forgetRequest()
			x.failure(failureOfRefusal(refused)).serve(rw)
			return
		}
		defer guard.finished.Store(guard.requests)
	}
	if r.Method == http.MethodConnect {
		x.failure(failConnectTo).serve(rw)
		return
	}
	ctx, cancel := context.WithCancel(context.WithValue(r.Context(), exchangeKey{}, x))
	defer cancel()
	x.begin(cancel, rw.control)
	r = r.WithContext(ctx)
	if r.Body != nil && r.Body != http.NoBody {
		rw.body = &requestBody{ReadCloser: r.Body, x: x, control: rw.control}
		r.Body = rw.body
		// Otherwise net/http discards the unread part of the body when the response begins.
		rw.control.EnableFullDuplex() //nolint:errcheck // HTTP/2 has it always
		defer rw.body.abandon()
	}
	x.set.proxy.ServeHTTP(rw, r)
}

func (s *settings) newReverseProxy() *httputil.ReverseProxy {
	p := &httputil.ReverseProxy{
		Rewrite:        s.rewrite,
		Transport:      &poolTransport{set: s},
		ModifyResponse: modifyResponse,
		ErrorHandler:   handleError,
		ErrorLog:       discard,
		BufferPool:     copyBuffers,
	}
	if s.config.Protocol == GRPC {
		p.FlushInterval = -1
	}
	return p
}

// rewrite makes the request to the backend. Each attempt sets the host of the URL.
func (s *settings) rewrite(p *httputil.ProxyRequest) {
	x := exchangeOf(p.In.Context())
	out := p.Out
	out.URL.Scheme = "http"
	if s.config.Protocol == HTTPS {
		out.URL.Scheme = "https"
	}
	out.Host = p.In.Host
	out.URL.RawQuery, out.URL.ForceQuery = p.In.URL.RawQuery, p.In.URL.ForceQuery
	if target := p.In.RequestURI; isTarget([]byte(target)) && (target == "*" || strings.HasPrefix(target, "/") && !strings.HasPrefix(target, "//")) {
		// The target is passed on as the client wrote it, because URL would write some characters differently.
		// A target of HTTP/2 can have spaces, which must not get into a request line.
		out.URL.Opaque, out.URL.RawQuery, out.URL.ForceQuery = target, "", false
	}
	out.Trailer = p.In.Trailer // net/http fills it at the end of the body
	forward(out.Header, p.In.Header, &x.guard.info)
}

// kept are fields that ReverseProxy removes, and that the edge passes on unchanged.
var kept = []string{"Forwarded", "X-Forwarded-Host"}

// forward sets the fields that tell the backend about the client.
func forward(out, in http.Header, i *info) {
	for _, name := range kept {
		if values, ok := in[name]; ok {
			out[name] = values
		}
	}
	client := i.client.Addr().String()
	if before := in["X-Forwarded-For"]; len(before) > 0 {
		client = strings.Join(before, ", ") + ", " + client
	}
	out.Set("X-Forwarded-For", client)
	out.Set("X-Forwarded-Proto", i.scheme())
	out.Set("X-Forwarded-Port", portString(i.local.Port()))
}

// modifyResponse records the time and the status of the head of a response, and watches its body.
func modifyResponse(r *http.Response) error {
	x := exchangeOf(r.Request.Context())
	x.responded(r.StatusCode)
	x.bodiless = r.ContentLength == 0
	if r.StatusCode != http.StatusSwitchingProtocols { // otherwise the body is the connection
		r.Body = &responseBody{r.Body, x, r.Request.Context()}
	}
	return nil
}

// handleError answers a request if the exchange with the backend has failed.
func handleError(w http.ResponseWriter, r *http.Request, err error) {
	exchangeOf(r.Context()).failureOf(r.Context(), err).serve(w)
}
