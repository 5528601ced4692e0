package forward

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"portolan.dev/services/kit/kittest"
)

// overTLS runs a server that answers over TLS. It returns its address, the authority of its
// certificate, which is for 127.0.0.1 and example.com, and the number of its connections so far.
func overTLS(t *testing.T) (addr netip.AddrPort, roots *x509.CertPool, connections *atomic.Int64) {
	t.Helper()
	web := httptest.NewTLSServer(nil) // only its certificate is used
	web.Close()
	roots = x509.NewCertPool()
	roots.AddCert(web.Certificate())
	lis, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: web.TLS.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	// Each connection has a handler goroutine of its own. turn guards the map.
	seen := map[string]bool{}
	connections = &atomic.Int64{}
	turn := make(chan struct{}, 1)
	srv := &dns.Server{Listener: lis, Net: "tcp-tls", Handler: dns.HandlerFunc(func(w dns.ResponseWriter, req *dns.Msg) {
		turn <- struct{}{}
		if !seen[w.RemoteAddr().String()] {
			seen[w.RemoteAddr().String()] = true
			connections.Add(1)
		}
		<-turn
		reply := new(dns.Msg).SetReply(req)
		reply.Answer = records(t, req.Question[0].Name+" 60 IN A 192.0.2.1")
		_ = w.WriteMsg(reply) // the client may have gone
		if req.Question[0].Name == "last.example." {
			w.Close()
		}
	})}
	kittest.Run(t, "upstream", func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() { lis.Close() })()
		if err := srv.ActivateAndServe(); ctx.Err() == nil {
			return err
		}
		return nil
	})
	return netip.MustParseAddrPort(lis.Addr().String()), roots, connections
}

// TestForwardingOverTLS checks that the certificate must be for the server, and that one connection
// serves many questions, also after the server has closed one.
func TestForwardingOverTLS(t *testing.T) {
	forwarder := func(addr netip.AddrPort, name string, roots *x509.CertPool) *Forwarder {
		f := New(Config{
			Upstreams: []Server{{Addr: addr, TLS: true, Name: name}}, Roots: roots, Entries: 100,
			Timeout: 30 * time.Second, Log: kittest.Logger(t),
		})
		kittest.Run(t, "forwarder", f.Run)
		return f
	}
	addr, roots, _ := overTLS(t)
	for what, f := range map[string]*Forwarder{
		"a certificate for another name":    forwarder(addr, "other.test", roots),
		"an authority that is not believed": forwarder(addr, "", x509.NewCertPool()),
	} {
		if m, err := f.Exchange(t.Context(), a("x.example.")); err == nil {
			t.Errorf("%s: %s", what, m)
		}
	}
	for _, name := range []string{"", "example.com"} {
		// Each forwarder has a server of its own, because forwarders look for loops at any time.
		addr, roots, connections := overTLS(t)
		u := forwarder(addr, name, roots).upstreams[0]
		for i, question := range []string{"a.example.", "b.example.", "last.example.", "c.example.", "d.example."} {
			if m, err := u.ask(t.Context(), a(question)); err != nil || len(m.Answer) != 1 {
				t.Fatalf("certificate for %q, question %d: %v, %v", name, i, m, err)
			}
		}
		// One connection until the server closes it, one after that, and one for the forwarder's
		// look for loops.
		if n := connections.Load(); n > 3 {
			t.Errorf("certificate for %q: %d connections for 5 questions", name, n)
		}
	}
}

func TestServerText(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.1:53": "192.0.2.1:53", "[2001:db8::1]:53": "[2001:db8::1]:53", "tls://192.0.2.1": "tls://192.0.2.1:853",
		"tls://[2001:db8::1]": "tls://[2001:db8::1]:853", "tls://192.0.2.1:8853#dns.example": "tls://192.0.2.1:8853#dns.example",
		"192.0.2.1": "", "dns.example:53": "", "192.0.2.1:53#name": "", "tls://192.0.2.1#": "", "tls://dns.example": "", "": "",
	} {
		var s Server
		err := s.UnmarshalText([]byte(text))
		if got := fmt.Sprint(s); want == "" && err == nil || want != "" && (err != nil || got != want) {
			t.Errorf("%q: %s, %v; want %q", text, got, err, want)
		}
	}
}
