package server_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"portolan.dev/dnssvc/internal/dnstest"
	"portolan.dev/dnssvc/internal/zone"
)

type row struct{ name, qtype, want string }

// check asks the questions over every transport.
func check(t *testing.T, table *zone.Table, rows []row) {
	t.Helper()
	addr, _ := serve(t, table)
	for _, w := range dnstest.Transports {
		for _, r := range rows {
			m := dnstest.Ask(t, w, addr, r.name, dns.StringToType[r.qtype])
			want := strings.ReplaceAll(strings.ReplaceAll(r.want, "@", r.name), "|", "\n  ")
			if got := dnstest.Describe(m); got != want {
				t.Errorf("%s: %s %s:\ngot  %s\nwant %s", w.Name, r.name, r.qtype, got, want)
			}
		}
	}
}

func TestEmptyHeadlessExists(t *testing.T) {
	cfg := zoneConfig()
	cfg.EmptyHeadlessExists = true
	check(t, dnstest.Table(t, cfg, world()...), []row{
		{"unready.default" + loc, "A", nodata},
		{"_http._tcp.unready.default" + loc, "SRV", nxdomain},
		{"peers.default" + loc, "AAAA", "NOERROR|@ 5 IN AAAA 2001:db8::a:1|@ 5 IN AAAA 2001:db8::b:0"},
	})
}

func TestInsecurePods(t *testing.T) {
	cfg := zoneConfig()
	cfg.Pods = zone.PodsInsecure
	check(t, dnstest.Table(t, cfg, world()...), []row{
		{"10-1-2-3.default.pod.cluster.local.", "A", "NOERROR|@ 5 IN A 10.1.2.3"},
		{"10-1-2-3.default.pod.cluster.local.", "AAAA", nodata},
		{"10-1-2-3.default.pod.cluster.local.", "ANY", `NOERROR|@ 5 IN HINFO "RFC8482" ""`},
		{"2001-db8--1.empty.pod.cluster.local.", "AAAA", "NOERROR|@ 5 IN AAAA 2001:db8::1"},
		{"2001-DB8--1.empty.pod.second.example.", "AAAA", "NOERROR|@ 5 IN AAAA 2001:db8::1"},
		{"10-1-2-3.nosuch.pod.cluster.local.", "A", nxdomain},
		{"10-1-2.default.pod.cluster.local.", "A", nxdomain},
		{"x.10-1-2-3.default.pod.cluster.local.", "A", nxdomain},
		{"default.pod.cluster.local.", "A", nodata},
		{"10-1-2-3.default.svc.cluster.local.", "A", nxdomain},
	})
}

func TestVerifiedPods(t *testing.T) {
	cfg := zoneConfig()
	cfg.Pods = zone.PodsVerified
	table := dnstest.Table(t, cfg, append(world(), dnstest.Pod("default/a", "10.64.9.1", "2001:db8::9"), dnstest.Pod("default/b", "10.64.9.1"))...)
	rows := []row{
		{"10-64-9-1.default.pod.cluster.local.", "A", "NOERROR|@ 5 IN A 10.64.9.1"},
		{"2001-db8--9.default.pod.cluster.local.", "AAAA", "NOERROR|@ 5 IN AAAA 2001:db8::9"},
		{"10-64-9-1.default.pod.cluster.local.", "AAAA", nodata},
		{"10-64-9-2.default.pod.cluster.local.", "A", nxdomain},
		{"10-64-9-1.other.pod.cluster.local.", "A", nxdomain},
	}
	check(t, table, rows)
	// Two pods shared the address, so the name stays until the second pod is deleted.
	dnstest.Delete(t, table, 2, dnstest.Pod("default/a", "10.64.9.1"))
	check(t, table, append(rows[:1:1], row{rows[1].name, "AAAA", nxdomain}))
	dnstest.Delete(t, table, 3, dnstest.Pod("default/b", "10.64.9.1"))
	check(t, table, []row{{rows[0].name, "A", nxdomain}, {"default.pod.cluster.local.", "A", nodata}})
}

// TestUnsynced checks that before the first snapshot no name is answered as absent.
func TestUnsynced(t *testing.T) {
	table, err := zone.New(zoneConfig())
	if err != nil {
		t.Fatal(err)
	}
	check(t, table, []row{
		{"web.default" + loc, "A", "SERVFAIL"},
		{"1.0.96.10.in-addr.arpa.", "PTR", "SERVFAIL"},
		{"nosuch.cluster.local.", "ANY", "SERVFAIL"},
		{"cluster.local.", "NS", "NOERROR|@ 5 IN NS ns.dns.cluster.local."},
		{"svc.cluster.local.", "A", nodata},
		{"dns-version.cluster.local.", "TXT", `NOERROR|@ 5 IN TXT "1.1.0"`},
		{"www.example.com.", "A", refused},
	})
	dnstest.Apply(t, table, 7, world()...)
	check(t, table, []row{{"web.default" + loc, "A", "NOERROR|@ 5 IN A 10.96.0.1"}, {"nosuch.cluster.local.", "A", nxdomain}})
}

// TestServiceGoesAndReturns checks that the names of a service and all names below them disappear
// with it.
func TestServiceGoesAndReturns(t *testing.T) {
	objects := world()
	table := dnstest.Table(t, zoneConfig(), objects...)
	web, slice := objects[2], objects[3]
	dnstest.Delete(t, table, 2, web)
	gone := []row{
		{"web.default" + loc, "A", nxdomain},
		{"_tcp.web.default" + loc, "SRV", nxdomain},
		{"named.web.default" + loc, "A", nxdomain},
		{"1.0.96.10.in-addr.arpa.", "PTR", nxdomain},
		{"1.0.64.10.in-addr.arpa.", "PTR", "NOERROR|@ 5 IN PTR 10-64-0-1.manual.other" + loc},
		{"default" + loc, "A", nodata},
	}
	check(t, table, gone)
	dnstest.Delete(t, table, 3, slice)
	check(t, table, gone)
	dnstest.Apply(t, table, 4, slice, web)
	check(t, table, []row{
		{"web.default" + loc, "A", "NOERROR|@ 5 IN A 10.96.0.1"},
		{"named.web.default" + loc, "A", "NOERROR|@ 5 IN A 10.64.0.2"},
		{"1.0.96.10.in-addr.arpa.", "PTR", "NOERROR|@ 5 IN PTR web.default" + loc},
	})
	// The type may change under the same name.
	dnstest.Apply(t, table, 5, dnstest.Service("default/web", "=elsewhere.example."))
	check(t, table, []row{
		{"web.default" + loc, "A", "NOERROR|@ 5 IN CNAME elsewhere.example."},
		{"named.web.default" + loc, "A", nxdomain},
		{"1.0.96.10.in-addr.arpa.", "PTR", nxdomain},
	})
}

// TestRotation checks that every answer has all addresses, and that each address is first in some
// answer.
func TestRotation(t *testing.T) {
	addr, _ := serve(t, dnstest.Table(t, zoneConfig(), world()...))
	first := map[string]bool{}
	for range 12 {
		m := dnstest.Ask(t, dnstest.Transports[0], addr, "peers.default"+loc, dns.TypeA)
		var got []string
		for _, rr := range m.Answer {
			got = append(got, rr.(*dns.A).A.String())
		}
		first[got[0]] = true
		slices.Sort(got)
		if want := []string{"10.64.1.1", "10.64.1.2", "10.64.1.3"}; !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
	if len(first) != 3 {
		t.Errorf("only %v came first", first)
	}
}

func TestBadZones(t *testing.T) {
	for _, zones := range [][]string{nil, {""}, {"."}, {"a..b"}, {"a.example", "a.example"}, {"b.a.example", "a.example"}, {strings.Repeat("x", 64)}} {
		if _, err := zone.New(zone.Config{Zones: zones}); err == nil {
			t.Errorf("zones %q: no error", zones)
		}
	}
	_, err := zone.New(zone.Config{Zones: []string{"a.example"}, Reverse: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}})
	if err == nil {
		t.Error("the whole of in-addr.arpa was taken")
	}
}
