package server_test

import (
	"fmt"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"testing"

	"portolan.dev/dnssvc/internal/dnstest"
	"portolan.dev/dnssvc/internal/server"
	"portolan.dev/dnssvc/internal/zone"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// hosts numbers the servers of this test binary. Each listens on an address of its own, so that a
// port that is free by UDP is also free by TCP.
var hosts atomic.Uint32

func zoneConfig() zone.Config {
	return zone.Config{
		Zones: []string{"cluster.local", "Second.Example"}, TTL: 5,
		Reverse: []netip.Prefix{
			netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("10.64.0.0/16"), netip.MustParsePrefix("2001:db8::/32"),
		},
		Nameservers: []netip.Addr{netip.MustParseAddr("10.96.0.10"), netip.MustParseAddr("2001:db8::53")},
	}
}

// serve runs a server for a table and returns its address.
func serve(t testing.TB, table *zone.Table, change ...func(*server.Config)) (addr string, s *server.Server) {
	t.Helper()
	cfg := server.Config{Names: table.Snapshot, Log: kittest.Logger(t), IdleTimeout: dnstest.AnswerTimeout}
	for _, f := range change {
		f(&cfg)
	}
	s = server.New(cfg)
	n := hosts.Add(1)
	if err := s.Listen(fmt.Sprintf("127.53.%d.%d:0", n/250, 1+n%250)); err != nil {
		t.Fatal(err)
	}
	kittest.Run(t, "dns server", s.Run)
	return s.Addrs()[0], s
}

// world returns a service of each kind and with each kind of problem.
func world() []object.Object {
	return []object.Object{
		dnstest.Namespace("default"), dnstest.Namespace("empty"),
		dnstest.Service("default/web", "10.96.0.1", "80:http/tcp", "443:https/tcp", "53:dns/udp", "132:s/sctp"),
		dnstest.Slice("default/web/web-1", "8080:http/tcp", "10.64.0.1", "10.64.0.2=named", "!10.64.0.3"),
		dnstest.Service("default/dual", "10.96.0.2", "2001:db8::2", "80"),
		dnstest.Service("default/six", "2001:db8::6", "80:http"),
		dnstest.Service("default/pending", "80"),
		dnstest.Service("default/peers", "None", "9000:peer"),
		dnstest.Slice("default/peers/peers-1", "9376:peer/tcp", "9377:gossip/udp", "10.64.1.1=alpha", "10.64.1.2=beta", "10.64.1.3", "!10.64.1.4=gamma"),
		dnstest.Slice("default/peers/peers-2", "9376:peer/tcp", "9377:gossip/udp", "2001:db8::a:1=alpha", "2001:db8::b:0"),
		dnstest.Service("default/weighted", "None", "80:http"),
		dnstest.Slice("default/weighted/w-1", "80:http/tcp", "10.64.2.1*10", "10.64.2.2*0", "10.64.2.3"),
		dnstest.Service("default/unready", "None", "80:http"),
		dnstest.Slice("default/unready/u-1", "80:http/tcp", "!10.64.3.1"),
		dnstest.Service("default/portless", "None"),
		dnstest.Slice("default/portless/p-1", "10.64.4.1"),
		dnstest.Service("default/mixed", "None", "80:http"),
		dnstest.Slice("default/mixed/m-1", "8080:http/tcp", "10.64.5.1"),
		dnstest.Slice("default/mixed/m-2", "10.64.5.2"), // a pod without a port of that name
		dnstest.Service("other/ext", "=db.Example.COM."),
		dnstest.Service("other/digits", "=10.1.2.3"),
		dnstest.Service("other/digits6", "=2001:db8::1"),
		dnstest.Service("other/inside", "=web.default.svc.cluster.local"),
		dnstest.Service("other/across", "=web.default.svc.second.example"),
		dnstest.Service("other/dangling", "=gone.default.svc.cluster.local"),
		dnstest.Service("other/self", "=self.other.svc.cluster.local"),
		dnstest.Service("other/ping", "=pong.other.svc.cluster.local"),
		dnstest.Service("other/pong", "=ping.other.svc.cluster.local"),
		dnstest.Service("other/apart", "172.16.0.1", "80:http"), // outside of the reverse zones
		// An endpoint of another service has the same address.
		dnstest.Service("other/twin", "10.96.0.9", "80:http"),
		dnstest.Service("other/manual", "10.96.0.8", "80:http"),
		dnstest.Slice("other/manual/m-1", "80:http/tcp", "10.96.0.9", "10.64.0.1", "8.8.8.8"),
	}
}

var discard = slog.New(slog.DiscardHandler)

func run(t testing.TB, s *server.Server) {
	t.Helper()
	kittest.Run(t, "dns server", s.Run)
}
