package web_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"portolan.dev/edge/internal/ending"
	"portolan.dev/edge/internal/web"
	"portolan.dev/services/kit/kittest"
)

// path is a way of a request through the edge.
type path struct {
	config web.Config
	scheme string
	certs  func(*testing.T) *tls.Config // nil: no TLS
	set    func(*http.Protocols)
}

// paths are the ways of the requests of each protocol.
var paths = map[string]path{
	"HTTP/1.1":           {web.Config{}, "http", nil, func(p *http.Protocols) { p.SetHTTP1(true) }},
	"HTTP/1.1 reference": {web.Config{ReferenceOnly: true}, "http", nil, func(p *http.Protocols) { p.SetHTTP1(true) }},
	"HTTP/1.1 TLS":       {web.Config{}, "https", withCertificates("http/1.1"), func(p *http.Protocols) { p.SetHTTP1(true) }},
	"HTTP/2 TLS":         {web.Config{}, "https", withCertificates("h2"), func(p *http.Protocols) { p.SetHTTP2(true) }},
	"HTTP/2":             {web.Config{}, "http", nil, func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) }},
	"HTTP/2 backend":     {web.Config{Protocol: web.H2C}, "http", nil, func(p *http.Protocols) { p.SetHTTP1(true) }},
}

func withCertificates(protocol string) func(*testing.T) *tls.Config {
	return func(t *testing.T) *tls.Config { return certificates(t, protocol) }
}

// start starts an edge on the path.
func (p *path) start(t *testing.T, backends ...netip.AddrPort) *edge {
	t.Helper()
	var certs *tls.Config
	if p.certs != nil {
		certs = p.certs(t)
	}
	return startEdge(t, p.config, certs, backends...)
}

func (p *path) url(e *edge) string { return p.scheme + "://" + e.addr }

// answers are the answers of the backend of TestEndings, by the path of the request.
func answers(ended <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		flush := w.(http.Flusher).Flush
		switch r.URL.Path {
		case "/abort":
			panic(http.ErrAbortHandler)
		case "/silent":
			<-ended
		case "/cut", "/stall":
			w.Header().Set("Content-Length", "1000000")
			fmt.Fprint(w, "begun")
			flush()
			if r.URL.Path == "/cut" {
				panic(http.ErrAbortHandler)
			}
			<-ended
		case "/long":
			for block := make([]byte, 1<<16); ; {
				if _, err := w.Write(block); err != nil {
					return
				}
				flush()
			}
		default:
			io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, "done")
		}
	}
}

// requester sends the requests of a test over one path.
type requester struct {
	*http.Client
	t   *testing.T
	e   *edge
	url string
}

// get asks for a page, and reads so many bytes of it. It goes on until leave is called.
func (r *requester) get(page string, read int64) (leave func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+page, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	res, err := r.Do(req)
	if err == nil {
		io.CopyN(io.Discard, res.Body, read) //nolint:errcheck // some responses end early
	}
	return cancel
}

// upload begins a body that goes on until leave is called.
func (r *requester) upload() (leave func()) {
	body, more := io.Pipe()
	ctx, cancel := context.WithCancel(r.t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/", body)
	if err != nil {
		r.t.Fatal(err)
	}
	go func() {
		if res, err := r.Do(req); err == nil {
			res.Body.Close()
		}
	}()
	io.WriteString(more, strings.Repeat("x", 1<<16)) //nolint:errcheck // the client reads it
	return cancel
}

// TestEndings lets requests end in each way on each path. The record must name the side that has ended it: if a client
// could make the edge blame a backend, it could take the backend away from all other clients.
func TestEndings(t *testing.T) {
	all := func(r *requester) { r.get("/", 4)() }
	for name, tc := range map[string]struct {
		idle time.Duration
		do   func(*requester)
		want []ending.Ending // one of them
	}{
		"all is well":              {0, all, []ending.Ending{ending.Complete}},
		"the client leaves early":  {500 * time.Millisecond, func(r *requester) { leaveWhileTheBackendWorks(r) }, []ending.Ending{ending.ClientGone, ending.Complete}},
		"the client leaves":        {0, func(r *requester) { r.get("/long", 1<<20)() }, []ending.Ending{ending.ClientGone}},
		"the client takes nothing": {500 * time.Millisecond, func(r *requester) { r.t.Cleanup(r.get("/long", 1<<16)) }, []ending.Ending{ending.ClientIdle}},
		"the client leaves an upload": {0, func(r *requester) {
			leave := r.upload()
			waitForRequest(r)
			leave()
		}, []ending.Ending{ending.ClientGone}},
		"the client sends nothing more": {500 * time.Millisecond, func(r *requester) { r.t.Cleanup(r.upload()) }, []ending.Ending{ending.ClientIdle}},
		"the backend aborts":            {0, func(r *requester) { r.get("/abort", 1)() }, []ending.Ending{ending.BackendGone, ending.BackendInvalid}},
		"the backend is silent":         {500 * time.Millisecond, func(r *requester) { r.get("/silent", 1)() }, []ending.Ending{ending.BackendIdle}},
		"the backend cuts its response": {0, func(r *requester) { r.get("/cut", 1<<20)() }, []ending.Ending{ending.BackendGone, ending.BackendInvalid}},
		"the backend stalls":            {500 * time.Millisecond, func(r *requester) { r.get("/stall", 1<<20)() }, []ending.Ending{ending.BackendIdle}},
		"the backend accepts nothing": {0, func(r *requester) {
			r.e.setBackends(closedPort(r.t))
			all(r)
		}, []ending.Ending{ending.NoBackend}},
		"there is no backend": {0, func(r *requester) {
			r.e.setBackends()
			all(r)
		}, []ending.Ending{ending.NoBackend}},
		"the edge stops": {0, func(r *requester) {
			r.get("/long", 1<<16)
			ctx, cancel := context.WithCancel(r.t.Context())
			cancel()
			r.e.Shutdown(ctx)
		}, []ending.Ending{ending.Stopped}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for protocol, p := range paths {
				t.Run(protocol, func(t *testing.T) {
					t.Parallel()
					ended := make(chan struct{})
					defer close(ended)
					p.config.IdleTimeout = tc.idle
					e := p.start(t, startHTTP(t, answers(ended)))
					tc.do(&requester{httpClient(t, p.set), t, e, p.url(e)})
					if got := e.record(t, 1); !slices.Contains(tc.want, got.Ending) {
						t.Errorf("it ended as %s, want %s: %+v", got.Ending, tc.want, got)
					}
				})
			}
		})
	}
}

func waitForRequest(r *requester) {
	r.t.Helper()
	kittest.Eventually(r.t, "a request at the backend", func() error { return wantSessions(r.e, 1) })
}

// leaveWhileTheBackendWorks leaves before the head of the response.
func leaveWhileTheBackendWorks(r *requester) {
	ctx, cancel := context.WithCancel(r.t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/silent", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if res, err := r.Do(req); err == nil {
			res.Body.Close()
		}
	}()
	waitForRequest(r)
	cancel()
	<-ended
}

// TestInvalidRequestsAreTheClients sends bodies that are invalid after the backend has got a part of them.
func TestInvalidRequestsAreTheClients(t *testing.T) {
	both(t, func(t *testing.T, c web.Config) {
		begun := make(chan struct{}, 1)
		e := startEdge(t, c, nil, startRaw(t, func(conn net.Conn) {
			r := bufio.NewReader(conn)
			readHead(r)
			r.ReadString('\n')
			begun <- struct{}{}
			io.Copy(io.Discard, r)
		}))
		conn := connect(t, e.addr)
		conn.send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
		<-begun
		conn.send("not a chunk\r\n")
		res, body := conn.response("POST")
		wantStatus(t, res, body, http.StatusBadRequest, "client: ")
		if got := e.record(t, 1).Ending; got != ending.ClientInvalid {
			t.Errorf("it ended as %s", got)
		}
	})
}
