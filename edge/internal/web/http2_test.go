package web_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"golang.org/x/net/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"portolan.dev/edge/internal/web"
	"portolan.dev/services/kit/kittest"
)

// certificates returns the configuration of a server with a certificate of its own.
func certificates(t *testing.T, protocols ...string) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"h"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: protocols}
}

// anyCertificate is the configuration of a client that does not verify the server.
func anyCertificate() *tls.Config { return &tls.Config{InsecureSkipVerify: true} }

// httpClient returns a client with the protocols that set selects.
func httpClient(t *testing.T, set func(*http.Protocols)) *http.Client {
	p := new(http.Protocols)
	set(p)
	transport := &http.Transport{Protocols: p, TLSClientConfig: anyCertificate()}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func fetch(t *testing.T, c *http.Client, url string) (*http.Response, string) {
	t.Helper()
	res, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

func describe(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%s %s %s %s", r.Proto, r.Host, r.Header.Get("X-Forwarded-Proto"), r.Header.Get("X-Forwarded-For"))
}

// TestProtocols checks each protocol of clients with each protocol of backends.
func TestProtocols(t *testing.T) {
	plain := startHTTP(t, describe)
	secure := kittest.Listen(t)
	backend := &http.Server{Handler: http.HandlerFunc(describe), TLSConfig: certificates(t), ErrorLog: log.New(io.Discard, "", 0)}
	go backend.ServeTLS(secure, "", "")
	t.Cleanup(func() { backend.Close() })
	backends := map[web.Protocol]netip.AddrPort{web.HTTP: plain, web.HTTPS: addrOf(secure.Addr()), web.H2C: plain, web.GRPC: plain}
	seen := map[web.Protocol]string{web.HTTP: "HTTP/1.1", web.HTTPS: "HTTP/1.1", web.H2C: "HTTP/2.0", web.GRPC: "HTTP/2.0"}
	both(t, func(t *testing.T, c web.Config) {
		for protocol, addr := range backends {
			c.Protocol = protocol
			for _, client := range []struct {
				set    func(*http.Protocols)
				scheme string
				major  int
			}{
				{func(p *http.Protocols) { p.SetHTTP1(true) }, "http", 1},
				{func(p *http.Protocols) { p.SetHTTP1(true) }, "https", 1},
				{func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) }, "http", 2},
				{func(p *http.Protocols) { p.SetHTTP2(true) }, "https", 2},
			} {
				var certs *tls.Config
				if client.scheme == "https" {
					certs = certificates(t, "h2", "http/1.1")
				}
				e := startEdge(t, c, certs, addr)
				h := httpClient(t, client.set)
				for i := range 2 {
					res, body := fetch(t, h, client.scheme+"://"+e.addr+"/x")
					want := fmt.Sprintf("%s %s %s 127.0.0.1", seen[protocol], e.addr, client.scheme)
					if res.ProtoMajor != client.major || body != want {
						t.Errorf("protocol %d, %s %d: got %s %q, want %q", protocol, client.scheme, client.major, res.Proto, body, want)
					}
					r := e.record(t, i+1)
					if r.Scheme+"://"+r.Host+r.URI != client.scheme+"://"+e.addr+"/x" || (r.TLSVersion != 0) != (client.scheme == "https") || r.Proto != res.Proto {
						t.Errorf("record %+v", r)
					}
				}
			}
		}
	})
}

// TestFailuresOfHTTP2 checks that a failure ends a stream, not the connection.
func TestFailuresOfHTTP2(t *testing.T) {
	e := startEdge(t, web.Config{}, nil)
	h := httpClient(t, func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) })
	for range 2 {
		res, body := fetch(t, h, "http://"+e.addr)
		wantStatus(t, res, body, 503, "edge: ")
	}
	if a, b := e.record(t, 1), e.record(t, 2); a.Client != b.Client {
		t.Errorf("two connections: %s, %s", a.Client, b.Client)
	}
}

// TestGoAway checks that a connection of HTTP/2 gets GOAWAY, and its request completes.
func TestGoAway(t *testing.T) {
	finish := make(chan struct{})
	e := startEdge(t, web.Config{}, nil, startHTTP(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(200)
		http.NewResponseController(w).Flush()
		<-finish
		io.WriteString(w, "ok")
	}))
	conn := connect(t, e.addr)
	conn.send("%s", http2.ClientPreface)
	framer := http2.NewFramer(conn, conn)
	framer.WriteSettings()
	framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, EndStream: true,
		BlockFragment: []byte("\x82\x86\x84\x01\x01h")}) // GET, http, /, :authority: h
	down := make(chan struct{})
	away := false
	for body := ""; body != "ok" || !away; {
		f, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch f := f.(type) {
		case *http2.HeadersFrame:
			go func() {
				e.Shutdown(context.Background())
				close(down)
			}()
		case *http2.GoAwayFrame:
			if !away {
				close(finish)
			}
			away = true
		case *http2.DataFrame:
			body += string(f.Data())
		}
	}
	<-down
}

// TestRefusedHTTP2 checks that requests of HTTP/2 which would divide differently in HTTP/1 do not reach a
// backend, and that a target with spaces is escaped.
func TestRefusedHTTP2(t *testing.T) {
	seen := make(chan string, 100)
	e := startEdge(t, web.Config{}, nil, startRaw(t, func(conn net.Conn) {
		r := bufio.NewReader(conn)
		for head := readHead(r); head != ""; head = readHead(r) {
			seen <- head
			io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
		}
	}))
	for _, field := range []hpack.HeaderField{
		{Name: "transfer-encoding", Value: "chunked"},
		{Name: "connection", Value: "x"},
		{Name: "content-length", Value: "555"},
		{Name: "content-length", Value: "+555"},
		{Name: "x", Value: "a\r\nY: b"},
		{Name: "x", Value: "a\nb"},
		{Name: "x: a\r\ny", Value: "b"},
		{Name: "X", Value: "upper case"},
		{Name: ":path", Value: "/second"},
		{Name: ":path", Value: "/ HTTP/1.1\r\nY: b"},
		{Name: ":method", Value: "GET / HTTP/1.1\r\nY: b"},
		{Name: ":authority", Value: "h\r\nY: b"},
	} {
		// A false length may only be replaced: the end of the stream is the end of the body.
		length := field.Name == "content-length"
		if status := requestHTTP2(t, e.addr, field); !length && status >= 200 && status < 400 {
			t.Errorf("%+v: status %d", field, status)
		}
		select {
		case head := <-seen:
			if !length || strings.Contains(head, field.Value) {
				t.Errorf("%+v reaches the backend: %q", field, head)
			}
		default:
		}
	}
	if status := requestHTTP2(t, e.addr, hpack.HeaderField{Name: ":path", Value: "/a HTTP/1.1"}); status != 204 {
		t.Fatalf("status %d", status)
	}
	if head := <-seen; !strings.HasPrefix(head, "GET /a%20HTTP/1.1 HTTP/1.1\r\n") {
		t.Errorf("the backend sees %q", head)
	}
}

// requestHTTP2 sends a request without a body, with a field that replaces a pseudo field or is added. It
// returns the status, or 0 if the stream or the connection ends without one.
func requestHTTP2(t *testing.T, addr string, field hpack.HeaderField) int {
	t.Helper()
	conn := connect(t, addr)
	defer conn.Close()
	conn.send("%s", http2.ClientPreface)
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	framer.WriteSettings()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	replaced := false
	for _, f := range []hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "h"}, {Name: ":path", Value: "/"}} {
		if f.Name == field.Name && field.Value != "/second" {
			f, replaced = field, true
		}
		encoder.WriteField(f)
	}
	if !replaced {
		encoder.WriteField(field)
	}
	framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, EndStream: true, BlockFragment: block.Bytes()})
	for {
		f, err := framer.ReadFrame()
		if err != nil {
			return 0
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			var status int
			fmt.Sscan(f.PseudoValue("status"), &status)
			return status
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return 0
		}
	}
}

// TestGRPC checks calls, streams, errors and missing backends.
func TestGRPC(t *testing.T) {
	lis := kittest.Listen(t)
	server, state := grpc.NewServer(), health.NewServer()
	healthpb.RegisterHealthServer(server, state)
	go server.Serve(lis)
	t.Cleanup(server.Stop)
	e := startEdge(t, web.Config{Protocol: web.GRPC}, nil, addrOf(lis.Addr()))
	conn, err := grpc.NewClient(e.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	client := healthpb.NewHealthClient(conn)
	if res, err := client.Check(ctx, &healthpb.HealthCheckRequest{}); err != nil || res.Status != healthpb.HealthCheckResponse_SERVING {
		t.Fatal(res, err)
	}
	for range 50 { // the head of a failed call is its end, however the edge is scheduled
		if _, err := client.Check(ctx, &healthpb.HealthCheckRequest{Service: "none"}); status.Code(err) != codes.NotFound {
			t.Fatal(err)
		}
	}
	watch, err := client.Watch(ctx, &healthpb.HealthCheckRequest{Service: "s"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []healthpb.HealthCheckResponse_ServingStatus{
		healthpb.HealthCheckResponse_SERVICE_UNKNOWN, healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING,
	} {
		if want != healthpb.HealthCheckResponse_SERVICE_UNKNOWN { // each message comes before the next one is made
			state.SetServingStatus("s", want)
		}
		if res, err := watch.Recv(); err != nil || res.Status != want {
			t.Fatal(res, err, want)
		}
	}
	e.setBackends()
	if _, err := client.Check(ctx, &healthpb.HealthCheckRequest{}); status.Code(err) != codes.Unavailable {
		t.Fatal(err)
	}
}

// TestWebSocket checks messages in both directions, and the idle time.
func TestWebSocket(t *testing.T) {
	both(t, func(t *testing.T, c web.Config) {
		c.IdleTimeout = 500 * time.Millisecond
		server := websocket.Handler(func(ws *websocket.Conn) { io.Copy(ws, ws) })
		e := startEdge(t, c, nil, startHTTP(t, server.ServeHTTP))
		ws, err := websocket.Dial("ws://"+e.addr+"/ws", "", "http://h/")
		if err != nil {
			t.Fatal(err)
		}
		defer ws.Close()
		for i := range 10 {
			var got string
			want := strings.Repeat(fmt.Sprint(i), 1000)
			if err := websocket.Message.Send(ws, want); err != nil {
				t.Fatal(err)
			}
			if err := websocket.Message.Receive(ws, &got); err != nil || got != want {
				t.Fatal(got, err)
			}
		}
		var got string
		var timeout net.Error
		ws.SetReadDeadline(time.Now().Add(20 * time.Second))
		if err := websocket.Message.Receive(ws, &got); err == nil || errors.As(err, &timeout) && timeout.Timeout() {
			t.Fatalf("an idle connection goes on: %q, %v", got, err)
		}
	})
}

// TestWebSocketDrains checks that a connection with another protocol goes on until the end of a drain.
func TestWebSocketDrains(t *testing.T) {
	both(t, func(t *testing.T, c web.Config) {
		server := websocket.Handler(func(ws *websocket.Conn) { io.Copy(ws, ws) })
		e := startEdge(t, c, nil, startHTTP(t, server.ServeHTTP))
		ws, err := websocket.Dial("ws://"+e.addr+"/ws", "", "http://h/")
		if err != nil {
			t.Fatal(err)
		}
		defer ws.Close()
		idle := connect(t, e.addr)
		idle.send("GET /none HTTP/1.1\r\nHost: h\r\n\r\n")
		idle.response("GET")
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		ended := make(chan struct{})
		go func() {
			e.Shutdown(ctx)
			close(ended)
		}()
		idle.closed() // the drain has begun
		var got string
		if err := websocket.Message.Send(ws, "still here"); err != nil {
			t.Fatal(err)
		}
		if err := websocket.Message.Receive(ws, &got); err != nil || got != "still here" {
			t.Fatal(got, err)
		}
		cancel()
		<-ended
		if err := websocket.Message.Receive(ws, &got); err == nil {
			t.Fatalf("goes on after the drain: %q", got)
		}
	})
}

// TestBackendTLS checks that a certificate of a backend is verified if there is a CA.
func TestBackendTLS(t *testing.T) {
	lis := kittest.Listen(t)
	certs := certificates(t)
	backend := &http.Server{Handler: http.HandlerFunc(describe), TLSConfig: certs, ErrorLog: log.New(io.Discard, "", 0)}
	go backend.ServeTLS(lis, "", "")
	t.Cleanup(func() { backend.Close() })
	good, err := x509.ParseCertificate(certs.Certificates[0].Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(good)
	for _, test := range []struct {
		verify *tls.Config
		status int
	}{
		{nil, 200},
		{&tls.Config{RootCAs: pool, ServerName: "h"}, 200},
		{&tls.Config{RootCAs: pool, ServerName: "other"}, 502},
		{&tls.Config{RootCAs: x509.NewCertPool(), ServerName: "h"}, 502},
	} {
		e := startEdge(t, web.Config{Protocol: web.HTTPS, BackendTLS: test.verify}, nil, addrOf(lis.Addr()))
		res, body := fetch(t, http.DefaultClient, "http://"+e.addr)
		if res.StatusCode != test.status || res.StatusCode != 200 && !strings.Contains(body, "backend: its certificate") {
			t.Errorf("%+v: got %d %q", test, res.StatusCode, body)
		}
	}
}
