package server_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"portolan.dev/dnssvc/internal/dnstest"
	"portolan.dev/dnssvc/internal/server"
	"portolan.dev/services/kit/kittest"
)

func allowTransfer(c *server.Config) {
	c.Transfer = &server.Transfer{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
}

// transferZone copies a zone.
func transferZone(t testing.TB, addr string, m *dns.Msg) ([]dns.RR, error) {
	t.Helper()
	transfer := &dns.Transfer{DialTimeout: dnstest.AnswerTimeout, ReadTimeout: dnstest.AnswerTimeout}
	envelopes, err := transfer.In(m, addr)
	if err != nil {
		return nil, err
	}
	var all []dns.RR
	for e := range envelopes {
		if e.Error != nil {
			err = e.Error
		}
		all = append(all, e.RR...)
	}
	return all, err
}

// TestTransfer checks that a transferred zone is the SOA record, all other records and the SOA
// record again, also in many messages.
func TestTransfer(t *testing.T) {
	addr, _ := serve(t, dnstest.Table(t, zoneConfig(), append(world(), largeService(1500)...)...), allowTransfer)
	all, err := transferZone(t, addr, new(dns.Msg).SetAxfr("cluster.local."))
	if err != nil {
		t.Fatal(err)
	}
	if all[0].Header().Rrtype != dns.TypeSOA || all[len(all)-1].String() != all[0].String() {
		t.Errorf("begins with %s and ends with %s", all[0], all[len(all)-1])
	}
	lines := dnstest.Text(all[1:])
	for _, want := range []string{
		"web.default.svc.cluster.local. 5 IN A 10.96.0.1", "ext.other.svc.cluster.local. 5 IN CNAME db.example.com.",
		"_peer._tcp.peers.default.svc.cluster.local. 5 IN SRV 0 25 9376 alpha.peers.default.svc.cluster.local.",
		"10-64-107-100.crowd.default.svc.cluster.local. 5 IN A 10.64.107.100", "cluster.local. 5 IN NS ns.dns.cluster.local.",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if len(slices.Compact(slices.Clone(lines))) != len(lines) {
		t.Error("records came twice")
	}
	if reverse, err := transferZone(t, addr, new(dns.Msg).SetAxfr("64.10.in-addr.arpa.")); err != nil || len(reverse) < 1500 {
		t.Errorf("reverse zone: %d records, %v", len(reverse), err)
	}
}

func TestTransferRules(t *testing.T) {
	table := dnstest.Table(t, zoneConfig(), world()...)
	open, _ := serve(t, table, allowTransfer)
	closed, _ := serve(t, table, func(c *server.Config) {
		c.Transfer = &server.Transfer{Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
	})
	tests := []struct {
		what, network, addr string
		m                   *dns.Msg
		rcode, records      int
	}{
		{"not on the list", "tcp", closed, new(dns.Msg).SetAxfr("cluster.local."), dns.RcodeRefused, 0},
		{"not on the list, no such zone", "tcp", closed, new(dns.Msg).SetAxfr("example.com."), dns.RcodeRefused, 0},
		{"by UDP", "udp", open, new(dns.Msg).SetAxfr("cluster.local."), dns.RcodeRefused, 0},
		{"no such zone", "tcp", open, new(dns.Msg).SetAxfr("svc.cluster.local."), dns.RcodeNotAuth, 0},
		{"IXFR of the current zone", "tcp", open, new(dns.Msg).SetIxfr("cluster.local.", 1, "ns.", "h."), dns.RcodeSuccess, 1},
	}
	for _, tt := range tests {
		reply := dnstest.Exchange(t, tt.network, tt.addr, tt.m)
		if reply.Rcode != tt.rcode || len(reply.Answer) != tt.records {
			t.Errorf("%s: %s", tt.what, dnstest.Describe(reply))
		}
	}
	all, err := transferZone(t, open, new(dns.Msg).SetIxfr("cluster.local.", 0, "ns.", "h."))
	if err != nil || len(all) < 20 || all[len(all)-1].Header().Rrtype != dns.TypeSOA {
		t.Errorf("IXFR of an old zone: %d records, %v", len(all), err)
	}
}

// TestNotify checks that secondaries are notified of changes, with the serial number that they can
// then copy.
func TestNotify(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan *dns.Msg, 100)
	secondary := &dns.Server{PacketConn: pc, MsgAcceptFunc: func(dns.Header) dns.MsgAcceptAction { return dns.MsgAccept },
		Handler: dns.HandlerFunc(func(w dns.ResponseWriter, m *dns.Msg) {
			heard <- m
			_ = w.WriteMsg(new(dns.Msg).SetReply(m)) // the notifier may have given up
		})}
	kittest.Run(t, "secondary", func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() { _ = secondary.Shutdown() })()
		if err := secondary.ActivateAndServe(); ctx.Err() == nil {
			return err
		}
		return nil
	})
	table := dnstest.Table(t, zoneConfig(), world()...)
	n := server.NewNotifier(table.Snapshot, []server.Secondary{{Addr: netip.MustParseAddrPort(pc.LocalAddr().String())}}, nil, kittest.Logger(t))
	kittest.Run(t, "notifier", n.Run)
	for serial := range uint32(2) {
		dnstest.Apply(t, table, uint64(serial+2), dnstest.Service("default/new", fmt.Sprintf("10.96.3.%d", serial)))
		n.Changed()
		told := map[string]bool{}
		for len(told) < len(table.Snapshot().Zones) {
			m := kittest.Receive(t, "a notification", heard)
			soa, ok := m.Answer[0].(*dns.SOA)
			if m.Opcode != dns.OpcodeNotify || !ok {
				t.Fatalf("got %s", m)
			}
			if soa.Serial == serial+2 {
				told[strings.ToLower(m.Question[0].Name)] = true
			}
		}
	}
}
