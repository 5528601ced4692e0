package server_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/dnssvc/internal/dnstest"
	"portolan.dev/dnssvc/internal/server"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
)

// serveTLS runs a server for the world that also answers over TLS. It returns its address and the
// settings of a client that verifies its certificate by an address.
func serveTLS(t *testing.T, change ...func(*server.Config)) (addr string, client *tls.Config, s *server.Server) {
	t.Helper()
	certs := kittest.NewCertificates(t)
	files := certs.Issue("dnssvc", time.Hour, "127.0.0.1")
	public, err := identity.OpenPublic(identity.PublicOptions{Cert: files.Cert, Key: files.Key, Log: kittest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	cfg := server.Config{Names: dnstest.Table(t, zoneConfig(), append(world(), largeService(1500)...)...).Snapshot, Log: kittest.Logger(t), IdleTimeout: dnstest.AnswerTimeout}
	for _, f := range change {
		f(&cfg)
	}
	s = server.New(cfg)
	if err := s.ListenTLS("127.0.0.1:0", public.ServerTLS()); err != nil {
		t.Fatal(err)
	}
	kittest.Run(t, "dns server", s.Run)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certs.Authority.Pair().Cert)
	return s.TLSAddrs()[0], &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}, s
}

// dialTLS opens a connection with a deadline.
func dialTLS(t *testing.T, addr string, client *tls.Config) *dns.Conn {
	t.Helper()
	conn, err := tls.Dial("tcp", addr, client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(dnstest.AnswerTimeout)); err != nil {
		t.Fatal(err)
	}
	return &dns.Conn{Conn: conn}
}

// TestDNSOverTLS asks the same questions over TLS, on one connection, and by TCP, and copies a
// zone.
func TestDNSOverTLS(t *testing.T) {
	addr, client, s := serveTLS(t, allowTransfer)
	plain, _ := serve(t, dnstest.Table(t, zoneConfig(), append(world(), largeService(1500)...)...))
	conn := dialTLS(t, addr, client)
	questions := []dns.Question{
		{Name: "web.default" + loc, Qtype: dns.TypeA}, {Name: "crowd.default" + loc, Qtype: dns.TypeA},
		{Name: "_peer._tcp.peers.default" + loc, Qtype: dns.TypeSRV}, {Name: "nosuch.default" + loc, Qtype: dns.TypeA},
		{Name: "inside.other" + loc, Qtype: dns.TypeAAAA}, {Name: "www.example.com.", Qtype: dns.TypeA},
	}
	for _, q := range questions { // all are sent before the first answer is read
		if err := conn.WriteMsg(new(dns.Msg).SetQuestion(q.Name, q.Qtype)); err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range questions {
		got, err := conn.ReadMsg()
		if err != nil {
			t.Fatal(err)
		}
		want := dnstest.Ask(t, dnstest.Transport{Net: "tcp"}, plain, q.Name, q.Qtype)
		if dnstest.Describe(got) != dnstest.Describe(want) {
			t.Errorf("%s:\nover TLS %s\nby TCP   %s", q.Name, dnstest.Describe(got), dnstest.Describe(want))
		}
	}
	transfer := &dns.Transfer{Conn: conn}
	envelopes, err := transfer.In(new(dns.Msg).SetAxfr("cluster.local."), addr)
	if err != nil {
		t.Fatal(err)
	}
	records := 0
	for e := range envelopes {
		if e.Error != nil {
			t.Fatal(e.Error)
		}
		records += len(e.RR)
	}
	if records < 1500 {
		t.Errorf("a copy of the zone over TLS has %d records", records)
	}
	if n := sample(t, s, "portolan_dnssvc_queries_total", "tls", "A"); n != 4 {
		t.Errorf("%v questions of type A counted for TLS, want 4", n)
	}
}

// sample returns the value of the metric with these values of its labels, in the order of their
// names.
func sample(t *testing.T, c prometheus.Collector, name string, labels ...string) float64 {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(c)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			var values []string
			for _, pair := range m.GetLabel() {
				values = append(values, pair.GetValue())
			}
			if family.GetName() == name && slices.Equal(values, labels) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no metric %s %v", name, labels)
	return 0
}

// TestOnlyTLSIsAnsweredOverTLS checks that the port for TLS does not answer a client without TLS,
// that it refuses a client of another protocol or of an old version of TLS, and that a client that
// does not trust the certificate sends no question.
func TestOnlyTLSIsAnsweredOverTLS(t *testing.T) {
	addr, client, s := serveTLS(t)
	conn := dial(t, addr)
	if _, err := conn.Write(frames(t, new(dns.Msg).SetQuestion("web.default"+loc, dns.TypeA))); err != nil {
		t.Fatal(err)
	}
	if m, err := (&dns.Conn{Conn: conn}).ReadMsg(); err == nil || isTimeout(err) {
		t.Errorf("a client without TLS got %v, %v", m, err)
	}
	for what, change := range map[string]func(*tls.Config){
		"another protocol":   func(c *tls.Config) { c.NextProtos = []string{"h2"} },
		"TLS 1.1":            func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 },
		"another server":     func(c *tls.Config) { c.ServerName = "dns.example" },
		"another authority":  func(c *tls.Config) { c.RootCAs = x509.NewCertPool() },
		"no authority known": func(c *tls.Config) { c.RootCAs = nil },
	} {
		other := client.Clone()
		change(other)
		if conn, err := tls.Dial("tcp", addr, other); err == nil {
			conn.Close()
			t.Errorf("%s: connected", what)
		}
	}
	dot := client.Clone()
	dot.NextProtos = []string{"dot"}
	if state := dialTLS(t, addr, dot).Conn.(*tls.Conn).ConnectionState(); state.NegotiatedProtocol != "dot" {
		t.Errorf("the protocol is %q", state.NegotiatedProtocol)
	}
	kittest.Eventually(t, "the handshakes that failed are counted", func() error {
		if n := sample(t, s, "portolan_dnssvc_tls_handshake_failures_total"); n < 6 {
			return fmt.Errorf("%v failures", n)
		}
		return nil
	})
}

// TestTLSConnectionsAreBounded checks that connections over TLS count as TCP connections, and that
// a connection without a handshake is closed.
func TestTLSConnectionsAreBounded(t *testing.T) {
	addr, client, _ := serveTLS(t, func(c *server.Config) { c.MaxConnsPerClient, c.IdleTimeout = 2, 200*time.Millisecond })
	var silent []net.Conn
	for range 2 {
		silent = append(silent, dial(t, addr))
	}
	over := dial(t, addr)
	if got, err := io.ReadAll(over); len(got) > 0 || isTimeout(err) {
		t.Errorf("above the limit: got %x, %v", got, err)
	}
	for _, conn := range silent {
		if got, err := io.ReadAll(conn); len(got) > 0 || isTimeout(err) {
			t.Errorf("without a handshake: got %x, %v", got, err)
		}
	}
	kittest.Eventually(t, "room for a client", func() error {
		conn, err := tls.Dial("tcp", addr, client)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(dnstest.AnswerTimeout)); err != nil {
			return err
		}
		m := &dns.Conn{Conn: conn}
		if err := m.WriteMsg(new(dns.Msg).SetQuestion("web.default"+loc, dns.TypeA)); err != nil {
			return err
		}
		_, err = m.ReadMsg()
		return err
	})
}
