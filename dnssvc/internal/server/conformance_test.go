package server_test

import (
	"strings"
	"testing"

	"github.com/miekg/dns"

	"portolan.dev/dnssvc/internal/dnstest"
	"portolan.dev/dnssvc/internal/server"
)

const (
	nodata   = "NOERROR"
	nxdomain = "NXDOMAIN"
	refused  = "REFUSED"
	loc      = ".svc.cluster.local."
)

// conformance is the specification as questions and answers. Answers have the form of
// dnstest.Describe, and "@" stands for the name in the question.
var conformance = []struct {
	rule, name, qtype, want string
}{
	{"version of the schema", "dns-version.cluster.local.", "TXT", `NOERROR|@ 5 IN TXT "1.1.0"`},
	{"ClusterIP: A", "web.default" + loc, "A", "NOERROR|@ 5 IN A 10.96.0.1"},
	{"case is preserved", "wEb.Default.sVc.Cluster.LOCAL.", "A", "NOERROR|@ 5 IN A 10.96.0.1"},
	{"ClusterIP: the other family is NODATA", "web.default" + loc, "AAAA", nodata},
	{"ClusterIP: AAAA", "six.default" + loc, "AAAA", "NOERROR|@ 5 IN AAAA 2001:db8::6"},
	{"ClusterIP: A of an IPv6 service is NODATA", "six.default" + loc, "A", nodata},
	{"dual stack: A", "dual.default" + loc, "A", "NOERROR|@ 5 IN A 10.96.0.2"},
	{"dual stack: AAAA", "dual.default" + loc, "AAAA", "NOERROR|@ 5 IN AAAA 2001:db8::2"},
	{"no cluster IP yet: exists", "pending.default" + loc, "A", nodata},
	{"every zone has the names", "web.default.svc.second.example.", "A", "NOERROR|@ 5 IN A 10.96.0.1"},
	{"named port: SRV with the service's port", "_http._tcp.web.default" + loc, "SRV", "NOERROR|@ 5 IN SRV 0 100 80 web.default" + loc},
	{"named port: UDP", "_dns._udp.web.default" + loc, "SRV", "NOERROR|@ 5 IN SRV 0 100 53 web.default" + loc},
	{"named port: SCTP", "_s._sctp.web.default" + loc, "SRV", "NOERROR|@ 5 IN SRV 0 100 132 web.default" + loc},
	{"named port in the second zone", "_http._tcp.web.default.svc.second.example.", "SRV", "NOERROR|@ 5 IN SRV 0 100 80 web.default.svc.second.example."},
	{"named port: other types are NODATA", "_http._tcp.web.default" + loc, "A", nodata},
	{"unknown port", "_ftp._tcp.web.default" + loc, "SRV", nxdomain},
	{"known port, other protocol", "_http._udp.web.default" + loc, "SRV", nxdomain},
	{"protocol alone is an empty non-terminal", "_tcp.web.default" + loc, "SRV", nodata},
	{"unnamed port has no SRV name", "_80._tcp.dual.default" + loc, "SRV", nxdomain},
	{"SRV at the bare name: every port", "web.default" + loc, "SRV", "NOERROR|@ 5 IN SRV 0 25 132 web.default" + loc +
		"|@ 5 IN SRV 0 25 443 web.default" + loc + "|@ 5 IN SRV 0 25 53 web.default" + loc + "|@ 5 IN SRV 0 25 80 web.default" + loc},
	{"SRV at the bare name: unnamed port", "dual.default" + loc, "SRV", "NOERROR|@ 5 IN SRV 0 100 80 dual.default" + loc},
	{"PTR of a cluster IP", "1.0.96.10.in-addr.arpa.", "PTR", "NOERROR|@ 5 IN PTR web.default" + loc},
	{"PTR of an IPv6 cluster IP", reverse6("2.0.0.0"), "PTR", "NOERROR|@ 5 IN PTR dual.default" + loc},
	{"PTR: other types are NODATA", "1.0.96.10.in-addr.arpa.", "A", nodata},
	{"PTR of an unknown address", "7.7.96.10.in-addr.arpa.", "PTR", nxdomain},
	{"reverse: empty non-terminal", "0.96.10.in-addr.arpa.", "PTR", nodata},
	{"reverse: another part of the range", "1.0.111.10.in-addr.arpa.", "PTR", nxdomain},
	{"reverse: outside of the range", "1.0.112.10.in-addr.arpa.", "PTR", refused},
	{"reverse: a name that is too long", "1.1.0.96.10.in-addr.arpa.", "PTR", nxdomain},
	{"ClusterIP: endpoint by address", "10-64-0-1.web.default" + loc, "A", "NOERROR|@ 5 IN A 10.64.0.1"},
	{"ClusterIP: endpoint by hostname", "named.web.default" + loc, "A", "NOERROR|@ 5 IN A 10.64.0.2"},
	{"endpoint with a hostname has no other name", "10-64-0-2.web.default" + loc, "A", nxdomain},
	{"endpoint that is not ready", "10-64-0-3.web.default" + loc, "A", nxdomain},
	{"PTR of an endpoint of ClusterIP services", "1.0.64.10.in-addr.arpa.", "PTR",
		"NOERROR|@ 5 IN PTR 10-64-0-1.manual.other" + loc + "|@ 5 IN PTR 10-64-0-1.web.default" + loc},
	{"PTR of an endpoint that is not ready", "3.0.64.10.in-addr.arpa.", "PTR", nxdomain},
	{"PTR: a cluster IP comes before endpoints", "9.0.96.10.in-addr.arpa.", "PTR", "NOERROR|@ 5 IN PTR twin.other" + loc},
	{"headless: A of the ready endpoints", "peers.default" + loc, "A", "NOERROR|@ 5 IN A 10.64.1.1|@ 5 IN A 10.64.1.2|@ 5 IN A 10.64.1.3"},
	{"headless: AAAA", "peers.default" + loc, "AAAA", "NOERROR|@ 5 IN AAAA 2001:db8::a:1|@ 5 IN AAAA 2001:db8::b:0"},
	{"headless: endpoint", "alpha.peers.default" + loc, "A", "NOERROR|@ 5 IN A 10.64.1.1"},
	{"headless: endpoint of both families", "alpha.peers.default" + loc, "AAAA", "NOERROR|@ 5 IN AAAA 2001:db8::a:1"},
	{"headless: endpoint by IPv6 address", "2001-db8--b-0.peers.default" + loc, "AAAA", "NOERROR|@ 5 IN AAAA 2001:db8::b:0"},
	{"headless: endpoint that is not ready", "gamma.peers.default" + loc, "A", nxdomain},
	{"headless: SRV with the endpoints' port", "_peer._tcp.peers.default" + loc, "SRV",
		"NOERROR|@ 5 IN SRV 0 25 9376 10-64-1-3.peers.default" + loc + "|@ 5 IN SRV 0 25 9376 2001-db8--b-0.peers.default" + loc +
			"|@ 5 IN SRV 0 25 9376 alpha.peers.default" + loc + "|@ 5 IN SRV 0 25 9376 beta.peers.default" + loc},
	{"headless: SRV of a port that only endpoints have", "_gossip._udp.peers.default" + loc, "SRV",
		"NOERROR|@ 5 IN SRV 0 25 9377 10-64-1-3.peers.default" + loc + "|@ 5 IN SRV 0 25 9377 2001-db8--b-0.peers.default" + loc +
			"|@ 5 IN SRV 0 25 9377 alpha.peers.default" + loc + "|@ 5 IN SRV 0 25 9377 beta.peers.default" + loc},
	{"headless: PTR by hostname", "1.1.64.10.in-addr.arpa.", "PTR", "NOERROR|@ 5 IN PTR alpha.peers.default" + loc},
	{"headless: PTR by address", "3.1.64.10.in-addr.arpa.", "PTR", "NOERROR|@ 5 IN PTR 10-64-1-3.peers.default" + loc},
	{"headless: PTR over IPv6", reverse6("1.0.0.0.a.0.0.0"), "PTR", "NOERROR|@ 5 IN PTR alpha.peers.default" + loc},
	{"headless: weights", "_http._tcp.weighted.default" + loc, "SRV", "NOERROR|@ 5 IN SRV 0 0 80 10-64-2-2.weighted.default" + loc +
		"|@ 5 IN SRV 0 1 80 10-64-2-3.weighted.default" + loc + "|@ 5 IN SRV 0 10 80 10-64-2-1.weighted.default" + loc},
	{"headless: no endpoint is ready", "unready.default" + loc, "A", nxdomain},
	{"headless: no endpoint is ready, SRV", "_http._tcp.unready.default" + loc, "SRV", nxdomain},
	{"headless without ports", "portless.default" + loc, "A", "NOERROR|@ 5 IN A 10.64.4.1"},
	{"headless without ports: no SRV", "portless.default" + loc, "SRV", nodata},
	{"headless: an endpoint without the named port is an address", "mixed.default" + loc, "A", "NOERROR|@ 5 IN A 10.64.5.1|@ 5 IN A 10.64.5.2"},
	{"headless: an endpoint without the named port has a name", "10-64-5-2.mixed.default" + loc, "A", "NOERROR|@ 5 IN A 10.64.5.2"},
	{"headless: an endpoint without the named port has no SRV of it", "_http._tcp.mixed.default" + loc, "SRV",
		"NOERROR|@ 5 IN SRV 0 100 8080 10-64-5-1.mixed.default" + loc},
	{"headless: an endpoint without the named port has a PTR", "2.5.64.10.in-addr.arpa.", "PTR", "NOERROR|@ 5 IN PTR 10-64-5-2.mixed.default" + loc},
	{"ExternalName: A", "ext.other" + loc, "A", "NOERROR|@ 5 IN CNAME db.example.com."},
	{"ExternalName: AAAA", "ext.other" + loc, "AAAA", "NOERROR|@ 5 IN CNAME db.example.com."},
	{"ExternalName: CNAME", "ext.other" + loc, "CNAME", "NOERROR|@ 5 IN CNAME db.example.com."},
	{"ExternalName: other types too", "ext.other" + loc, "MX", "NOERROR|@ 5 IN CNAME db.example.com."},
	{"ExternalName: no SRV, as it has no ports", "ext.other" + loc, "SRV", nodata},
	{"ExternalName inside: no SRV", "inside.other" + loc, "SRV", nodata},
	{"ExternalName: nothing is below", "_http._tcp.ext.other" + loc, "SRV", nxdomain},
	{"ExternalName that is an address", "digits.other" + loc, "A", nxdomain},
	{"ExternalName that is an address: CNAME", "digits.other" + loc, "CNAME", nxdomain},
	{"ExternalName that is an IPv6 address", "digits6.other" + loc, "AAAA", nxdomain},
	{"ExternalName inside: followed", "inside.other" + loc, "A", "NOERROR|@ 5 IN CNAME web.default" + loc + "|web.default" + loc + " 5 IN A 10.96.0.1"},
	{"ExternalName inside: NODATA at the end", "inside.other" + loc, "AAAA", "NOERROR|@ 5 IN CNAME web.default" + loc},
	{"ExternalName into another zone", "across.other" + loc, "A",
		"NOERROR|@ 5 IN CNAME web.default.svc.second.example.|web.default.svc.second.example. 5 IN A 10.96.0.1"},
	{"ExternalName inside: the end does not exist", "dangling.other" + loc, "A", "NXDOMAIN|@ 5 IN CNAME gone.default" + loc},
	{"ExternalName: alias of itself", "self.other" + loc, "A", "NOERROR|@ 5 IN CNAME self.other" + loc},
	{"ExternalName: loop", "ping.other" + loc, "A", "NOERROR|@ 5 IN CNAME pong.other" + loc + "|pong.other" + loc + " 5 IN CNAME ping.other" + loc},
	{"unknown service", "nosuch.default" + loc, "A", nxdomain},
	{"unknown namespace", "web.nosuch" + loc, "A", nxdomain},
	{"too many labels", "a.b.c.web.default" + loc, "A", nxdomain},
	{"namespace with services", "default" + loc, "A", nodata},
	{"namespace without services", "empty" + loc, "A", nodata},
	{"namespace that only services name", "other" + loc, "A", nodata},
	{"svc", "svc.cluster.local.", "A", nodata},
	{"pod", "pod.cluster.local.", "A", nodata},
	{"pod records are disabled", "10-64-0-1.default.pod.cluster.local.", "A", nxdomain},
	{"apex", "cluster.local.", "A", nodata},
	{"apex: NS", "cluster.local.", "NS", "NOERROR|@ 5 IN NS ns.dns.cluster.local."},
	{"apex: SOA", "cluster.local.", "SOA", "NOERROR|@ 5 IN SOA ns.dns.cluster.local. hostmaster.cluster.local. 1 7200 1800 86400 5"},
	{"apex of a reverse zone: NS", "96.10.in-addr.arpa.", "NS", "NOERROR|@ 5 IN NS ns.dns.cluster.local."},
	{"name server", "ns.dns.cluster.local.", "A", "NOERROR|@ 5 IN A 10.96.0.10"},
	{"name server: AAAA", "ns.dns.cluster.local.", "AAAA", "NOERROR|@ 5 IN AAAA 2001:db8::53"},
	{"dns is an empty non-terminal", "dns.cluster.local.", "A", nodata},
	{"types that nobody has", "web.default" + loc, "MX", nodata},
	{"types without a name", "web.default" + loc, "TYPE65280", nodata},
	{"ANY is answered with little", "web.default" + loc, "ANY", `NOERROR|@ 5 IN HINFO "RFC8482" ""`},
	{"ANY at an empty non-terminal", "default" + loc, "ANY", nodata},
	{"ANY at an alias", "ext.other" + loc, "ANY", "NOERROR|@ 5 IN CNAME db.example.com."},
	{"ANY at a name that is not", "nosuch.default" + loc, "ANY", nxdomain},
	{"address outside of the reverse zones", "apart.other" + loc, "A", "NOERROR|@ 5 IN A 172.16.0.1"},
	{"PTR of a cluster IP of a later pool", "1.0.16.172.in-addr.arpa.", "PTR", "NOERROR|@ 5 IN PTR apart.other" + loc},
	{"PTR of a cluster IP of a later pool: other types", "1.0.16.172.in-addr.arpa.", "A", nodata},
	{"PTR of a cluster IP of a later pool: nothing below", "x.1.0.16.172.in-addr.arpa.", "PTR", nxdomain},
	{"PTR of a cluster IP of a later pool: SOA", "1.0.16.172.in-addr.arpa.", "SOA",
		"NOERROR|@ 5 IN SOA ns.dns.cluster.local. hostmaster.cluster.local. 1 7200 1800 86400 5"},
	{"PTR of a cluster IP of a later pool: NS", "1.0.16.172.in-addr.arpa.", "NS", "NOERROR|@ 5 IN NS ns.dns.cluster.local."},
	{"its neighbour is not ours", "2.0.16.172.in-addr.arpa.", "PTR", refused},
	{"what is above is not ours", "0.16.172.in-addr.arpa.", "PTR", refused},
	{"an endpoint outside of the ranges may be anybody's", "8.8.8.8.in-addr.arpa.", "PTR", refused},
	{"other names", "www.example.com.", "A", refused},
	{"the root", ".", "NS", refused},
	{"above a zone", "local.", "A", refused},
	{"a zone whose name ends alike", "xcluster.local.", "A", refused},
}

// reverse6 returns the reverse name of an address in 2001:db8::/32 with the given last nibbles.
func reverse6(last string) string {
	nibbles := strings.Split(last, ".")
	for len(nibbles) < 24 {
		nibbles = append(nibbles, "0")
	}
	return strings.Join(nibbles, ".") + ".8.b.d.0.1.0.0.2.ip6.arpa."
}

func TestConformance(t *testing.T) {
	table := dnstest.Table(t, zoneConfig(), world()...)
	for name, change := range map[string]func(*server.Config){
		"ordinary": func(c *server.Config) { c.OrdinaryOnly = true },
		"fast":     func(*server.Config) {},
	} {
		addr, _ := serve(t, table, change)
		for _, w := range dnstest.Transports {
			t.Run(name+" "+w.Name, func(t *testing.T) { conforms(t, w, addr) })
		}
	}
}

func conforms(t *testing.T, w dnstest.Transport, addr string) {
	for _, tt := range conformance {
		m := dnstest.Ask(t, w, addr, tt.name, dns.StringToType[tt.qtype]+typeNumber(tt.qtype))
		want := strings.ReplaceAll(strings.ReplaceAll(tt.want, "@", tt.name), "|", "\n  ")
		if m.Truncated {
			if w.Net != "udp" || w.Size > 512 {
				t.Errorf("%s: truncated", tt.rule)
			}
			continue // other tests cover this answer
		}
		if got := dnstest.Describe(m); got != want {
			t.Errorf("%s: %s %s:\ngot  %s\nwant %s", tt.rule, tt.name, tt.qtype, got, want)
		}
		checkShape(t, tt.rule, m, w)
	}
}

// typeNumber returns the number of TYPE65280, and 0 for types with names.
func typeNumber(text string) uint16 {
	if text == "TYPE65280" {
		return 65280
	}
	return 0
}

// checkShape checks properties of every answer.
func checkShape(t *testing.T, rule string, m *dns.Msg, w dnstest.Transport) {
	t.Helper()
	ours := m.Rcode != dns.RcodeRefused
	if m.Authoritative != ours {
		t.Errorf("%s: authoritative is %v", rule, m.Authoritative)
	}
	if !m.Response || m.RecursionAvailable || !m.RecursionDesired {
		t.Errorf("%s: flags %+v", rule, m.MsgHdr)
	}
	if (m.IsEdns0() != nil) != (w.Size > 0) {
		t.Errorf("%s: OPT record %v", rule, m.IsEdns0())
	}
	last := len(m.Answer) > 0 && m.Answer[len(m.Answer)-1].Header().Rrtype != dns.TypeCNAME
	negative := m.Rcode == dns.RcodeNameError || len(m.Answer) == 0
	if !ours || last {
		negative = false
	}
	for _, rr := range m.Ns {
		soa, ok := rr.(*dns.SOA)
		if !ok || soa.Hdr.Ttl != 5 || soa.Minttl != 5 || soa.Serial != 1 || !dns.IsSubDomain(soa.Hdr.Name, lastName(m)) {
			t.Errorf("%s: authority %s", rule, rr)
		}
	}
	if negative && len(m.Ns) != 1 {
		t.Errorf("%s: a negative answer needs the SOA of the zone, got %v", rule, m.Ns)
	}
}

// lastName returns the target of the last alias of an answer.
func lastName(m *dns.Msg) string {
	name := m.Question[0].Name
	for _, rr := range m.Answer {
		if alias, ok := rr.(*dns.CNAME); ok {
			name = alias.Target
		}
	}
	return name
}

// TestGlue checks that SRV answers carry the addresses of their targets.
func TestGlue(t *testing.T) {
	addr, _ := serve(t, dnstest.Table(t, zoneConfig(), world()...))
	tests := []struct{ name, qtype, want string }{
		{"_http._tcp.web.default" + loc, "SRV", "web.default" + loc + " 5 IN A 10.96.0.1"},
		{"web.default" + loc, "SRV", "web.default" + loc + " 5 IN A 10.96.0.1"},
		{"dual.default" + loc, "SRV", "dual.default" + loc + " 5 IN A 10.96.0.2|dual.default" + loc + " 5 IN AAAA 2001:db8::2"},
		{"_peer._tcp.peers.default" + loc, "SRV", "10-64-1-3.peers.default" + loc + " 5 IN A 10.64.1.3|" +
			"2001-db8--b-0.peers.default" + loc + " 5 IN AAAA 2001:db8::b:0|" +
			"alpha.peers.default" + loc + " 5 IN A 10.64.1.1|alpha.peers.default" + loc + " 5 IN AAAA 2001:db8::a:1|" +
			"beta.peers.default" + loc + " 5 IN A 10.64.1.2"},
		{"cluster.local.", "NS", "ns.dns.cluster.local. 5 IN A 10.96.0.10|ns.dns.cluster.local. 5 IN AAAA 2001:db8::53"},
		{"web.default" + loc, "A", ""},
	}
	for _, tt := range tests {
		m := dnstest.Ask(t, dnstest.Transport{Net: "tcp"}, addr, tt.name, dns.StringToType[tt.qtype])
		if got := strings.Join(dnstest.Text(m.Extra), "|"); got != tt.want {
			t.Errorf("%s %s: additional section\ngot  %s\nwant %s", tt.name, tt.qtype, got, tt.want)
		}
	}
}
