package server_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"portolan.dev/dnssvc/internal/dnstest"
	"portolan.dev/dnssvc/internal/server"
)

// fakeForwarder answers for names outside of the zones.
type fakeForwarder struct{ allow netip.Prefix }

func (o fakeForwarder) Allowed(client netip.Addr) bool { return o.allow.Contains(client) }

func (o fakeForwarder) Exchange(_ context.Context, q dns.Question) (*dns.Msg, error) {
	m := new(dns.Msg)
	soa, err := dns.NewRR("example.com. 60 IN SOA ns.example.com. h.example.com. 1 2 3 4 60")
	if err != nil {
		return nil, err
	}
	switch strings.ToLower(q.Name) {
	case "db.example.com.", "www.example.com.":
		if q.Qtype != dns.TypeA {
			m.Ns = []dns.RR{soa}
			return m, nil
		}
		rr, err := dns.NewRR(q.Name + " 30 IN A 192.0.2.7")
		m.Answer = []dns.RR{rr}
		return m, err
	case "down.example.com.":
		return nil, errors.New("no answer")
	}
	m.Rcode, m.Ns = dns.RcodeNameError, []dns.RR{soa}
	return m, nil
}

func TestForwarding(t *testing.T) {
	objects := append(world(), dnstest.Service("other/down", "=down.example.com"), dnstest.Service("other/gone", "=gone.example.com"))
	table := dnstest.Table(t, zoneConfig(), objects...)
	tests := []struct {
		rule, name, qtype, allowed, others string
	}{
		{"another name", "www.example.com.", "A", "NOERROR|@ 30 IN A 192.0.2.7", refused},
		{"another name, another type", "www.example.com.", "AAAA", "NOERROR", refused},
		{"another name that does not exist", "no.example.com.", "A", nxdomain, refused},
		{"another name, and nobody answers", "down.example.com.", "A", "SERVFAIL", refused},
		{"the name of an address elsewhere", "7.2.0.192.in-addr.arpa.", "PTR", nxdomain, refused},
		{"an alias is followed", "ext.other" + loc, "A", "NOERROR|db.example.com. 30 IN A 192.0.2.7|@ 5 IN CNAME db.example.com.", "NOERROR|@ 5 IN CNAME db.example.com."},
		{"an alias whose target lacks the type", "ext.other" + loc, "AAAA", "NOERROR|@ 5 IN CNAME db.example.com.", "NOERROR|@ 5 IN CNAME db.example.com."},
		{"an alias is not followed for its own type", "ext.other" + loc, "CNAME", "NOERROR|@ 5 IN CNAME db.example.com.", "NOERROR|@ 5 IN CNAME db.example.com."},
		{"an alias of what does not exist", "gone.other" + loc, "A", "NXDOMAIN|@ 5 IN CNAME gone.example.com.", "NOERROR|@ 5 IN CNAME gone.example.com."},
		{"an alias, and nobody answers", "down.other" + loc, "A", "NOERROR|@ 5 IN CNAME down.example.com.", "NOERROR|@ 5 IN CNAME down.example.com."},
		{"names of services", "web.default" + loc, "A", "NOERROR|@ 5 IN A 10.96.0.1", "NOERROR|@ 5 IN A 10.96.0.1"},
		{"names of services that are not", "no.default" + loc, "A", nxdomain, nxdomain},
	}
	for allowed, prefix := range map[bool]string{true: "127.0.0.0/8", false: "192.0.2.0/24"} {
		addr, _ := serve(t, table, func(c *server.Config) { c.Forward = fakeForwarder{netip.MustParsePrefix(prefix)} })
		for _, w := range dnstest.Transports {
			for _, tt := range tests {
				want := tt.others
				if allowed {
					want = tt.allowed
				}
				want = strings.ReplaceAll(strings.ReplaceAll(want, "@", tt.name), "|", "\n  ")
				m := dnstest.Ask(t, w, addr, tt.name, dns.StringToType[tt.qtype])
				if got := dnstest.Describe(m); got != want {
					t.Errorf("%s by %s, allowed %v:\ngot  %s\nwant %s", tt.rule, w.Name, allowed, got, want)
				}
				if m.RecursionAvailable != allowed {
					t.Errorf("%s by %s: recursion available %v, allowed %v", tt.rule, w.Name, m.RecursionAvailable, allowed)
				}
			}
		}
		m := new(dns.Msg).SetQuestion("www.example.com.", dns.TypeA)
		m.RecursionDesired = false
		if reply := dnstest.Exchange(t, "udp", addr, m); reply.Rcode != dns.RcodeRefused {
			t.Errorf("recursion was not asked for, and got %s", dnstest.Describe(reply))
		}
	}
}

// stuckForwarder does not answer before its context ends.
type stuckForwarder struct{ asked chan struct{} }

func (stuckForwarder) Allowed(netip.Addr) bool { return true }

func (s stuckForwarder) Exchange(ctx context.Context, _ dns.Question) (*dns.Msg, error) {
	s.asked <- struct{}{}
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestUpstreamHangs checks that silent upstream servers do not delay questions for services, and
// that the number of waiting questions is bounded.
func TestUpstreamHangs(t *testing.T) {
	asked := make(chan struct{}, 1000)
	addr, _ := serve(t, dnstest.Table(t, zoneConfig(), world()...), func(c *server.Config) {
		c.Forward, c.MaxPending = stuckForwarder{asked}, 5
	})
	conn := dial(t, addr)
	var flood []*dns.Msg
	for range 50 {
		flood = append(flood, new(dns.Msg).SetQuestion("www.example.com.", dns.TypeA))
	}
	flood = append(flood, new(dns.Msg).SetQuestion("web.default"+loc, dns.TypeA))
	if _, err := conn.Write(frames(t, flood...)); err != nil {
		t.Fatal(err)
	}
	m, err := (&dns.Conn{Conn: conn}).ReadMsg()
	if err != nil || len(m.Answer) != 1 {
		t.Fatalf("got %v, %v", m, err)
	}
	if m := dnstest.Ask(t, dnstest.Transports[0], addr, "web.default"+loc, dns.TypeA); len(m.Answer) != 1 {
		t.Errorf("by UDP: %s", m)
	}
	if n := len(asked); n > 5 {
		t.Errorf("%d questions wait, at most 5", n)
	}
}
