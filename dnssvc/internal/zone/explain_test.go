package zone_test

import (
	"strings"
	"testing"

	"github.com/miekg/dns"

	"portolan.dev/dnssvc/internal/dnstest"
	"portolan.dev/dnssvc/internal/zone"
)

// explainedTable returns a table with a service of each form and its objects.
func explainedTable(t *testing.T, pods zone.PodMode) *zone.Table {
	return dnstest.Table(t, config(pods, false),
		dnstest.Namespace("a"), dnstest.Namespace("empty"),
		dnstest.Service("a/web", "10.0.0.1", "80:http", "53:dns/udp"), dnstest.Slice("a/web/web-1", "80:http/tcp", "10.0.1.1=h", "!10.0.1.2"),
		dnstest.Service("a/nameless", "10.0.0.2", "80"),
		dnstest.Service("a/pending", "80:http"),
		dnstest.Service("a/headless", "None"), dnstest.Slice("a/headless/h-1", "80:http/tcp", "10.0.2.1", "10.0.2.2", "!10.0.2.3"),
		dnstest.Service("a/starting", "None"), dnstest.Slice("a/starting/s-1", "80:http/tcp", "!10.0.3.1", "!10.0.3.2"),
		dnstest.Service("a/alone", "None"),
		dnstest.Service("a/alias", "=other.example"), dnstest.Service("a/address", "=192.0.2.1"),
		dnstest.Service("unlisted/web", "10.0.0.9", "80:http"),
		dnstest.Pod("a/p", "10.0.4.1"),
	)
}

// TestExplain checks that each sentence names the objects from which a name's records derive, or
// the missing object.
func TestExplain(t *testing.T) {
	tests := []struct {
		name   string
		rrtype uint16
		want   string // one sentence per line; only the beginning if it ends in …
	}{
		{"cluster.local.", dns.TypeA, "cluster.local. is the apex of a zone…"},
		{"10.in-addr.arpa.", dns.TypePTR, "10.in-addr.arpa. is in none of the zones served here"},
		{"0.10.in-addr.arpa.", dns.TypePTR, "0.10.in-addr.arpa. is the apex of a zone…"},
		{"www.example.", dns.TypeA, "www.example. is in none of the zones served here"},

		{"svc.cluster.local.", dns.TypeA, "svc is reserved by the specification and has no records"},
		{"pod.b.example.", dns.TypeA, "pod is reserved by the specification and has no records"},
		{"dns-version.cluster.local.", dns.TypeTXT, "dns-version is the version of…"},
		{"ns.dns.cluster.local.", dns.TypeA, "ns.dns is this name server…"},
		{"x.dns-version.cluster.local.", dns.TypeTXT, "below a zone there are the names…"},
		{"www.cluster.local.", dns.TypeA, "below a zone there are the names…"},

		{"empty.svc.cluster.local.", dns.TypeA, "empty is a namespace…"},
		{"unlisted.svc.cluster.local.", dns.TypeA, "unlisted is a namespace…"},
		{"nowhere.svc.cluster.local.", dns.TypeA, "there is no Namespace nowhere"},

		{"web.a.svc.b.example.", dns.TypeA, "Service a/web, clusterIP 10.0.0.1"},
		{"web.a.svc.b.example.", dns.TypeSRV, "Service a/web: each of its 2 ports"},
		{"web.a.svc.b.example.", dns.TypeTXT, "Service a/web, clusterIP 10.0.0.1\nservices have records of the types A, AAAA and SRV, not TXT"},
		{"pending.a.svc.cluster.local.", dns.TypeA, "Service a/pending has no cluster IP yet"},
		{"headless.a.svc.cluster.local.", dns.TypeAAAA, "Service a/headless is headless: 2 ready endpoints (1 more are not ready) in EndpointSlices h-1"},
		{"starting.a.svc.cluster.local.", dns.TypeA, "Service a/starting is headless and none of its 2 endpoints is ready"},
		{"alone.a.svc.cluster.local.", dns.TypeA, "Service a/alone is headless and has no endpoints"},
		{"alias.a.svc.cluster.local.", dns.TypeA, "Service a/alias, externalName: an alias of other.example. for…"},
		{"alias.a.svc.cluster.local.", dns.TypeSRV, "Service a/alias, externalName: an alias of…\nit has no ports…"},
		{"x.alias.a.svc.cluster.local.", dns.TypeA, "Service a/alias, externalName: an alias of…\nnothing exists below an ExternalName service"},
		{"address.a.svc.cluster.local.", dns.TypeA, `Service a/address: externalName "192.0.2.1" is an address…` + "\nfor a fixed address…"},
		{"absent.a.svc.cluster.local.", dns.TypeA, "there is no Service a/absent"},
		{"headless.empty.svc.cluster.local.", dns.TypeA, "there is no Service empty/headless\nthere is a Service of that name in: a"},
		{"web.nowhere.svc.cluster.local.", dns.TypeA, "there is no Namespace nowhere\nthere is no Service nowhere/web\nthere is a Service of that name in: a, unlisted"},
		{"absent.unlisted.svc.cluster.local.", dns.TypeA, "there is no Service unlisted/absent"},

		{"_http._tcp.web.a.svc.cluster.local.", dns.TypeSRV, "Service a/web, port http: 80/tcp"},
		{"_dns._udp.web.a.svc.cluster.local.", dns.TypeANY, "Service a/web, port dns: 53/udp"},
		{"_http._tcp.web.a.svc.cluster.local.", dns.TypeA, "Service a/web, port http: 80/tcp\nports have records of type SRV, not A"},
		{"_http._udp.web.a.svc.cluster.local.", dns.TypeSRV, "Service a/web exists and has no port named http/udp\nits named ports: http/tcp, dns/udp"},
		{"_http.x._tcp.web.a.svc.cluster.local.", dns.TypeSRV, "Service a/web exists and has no port named http/tcp\nits named ports: http/tcp, dns/udp"},
		{"_tcp.web.a.svc.cluster.local.", dns.TypeSRV, "Service a/web: ask for _port._tcp"},
		{"_http._tcp.nameless.a.svc.cluster.local.", dns.TypeSRV, "Service a/nameless exists and has no port named http/tcp\nnone of its ports has a name"},
		{"_http._tcp.headless.a.svc.cluster.local.", dns.TypeSRV, "Service a/headless, port http: 80/tcp"},
		{"_http._tcp.starting.a.svc.cluster.local.", dns.TypeSRV, "Service a/starting exists and has no port named http/tcp\nit is headless, and no ready endpoint has a named port"},

		{"h.web.a.svc.cluster.local.", dns.TypeA, "EndpointSlice a/web-1 of Service a/web: endpoint 10.0.1.1 is ready"},
		{"10-0-1-1.web.a.svc.cluster.local.", dns.TypeA, "Service a/web exists and none of its 1 ready endpoints is named 10-0-1-1 (1 more are not ready)"},
		{"10-0-2-2.headless.a.svc.cluster.local.", dns.TypeA, "EndpointSlice a/h-1 of Service a/headless: endpoint 10.0.2.2 is ready"},
		{"x.y.web.a.svc.cluster.local.", dns.TypeA, "Service a/web exists; below it there are ports (_port._protocol) and endpoints (one label) only"},

		{"1.0.0.10.in-addr.arpa.", dns.TypePTR, "web.a.svc.cluster.local. has the address as a cluster IP"},
		{"1.1.0.10.in-addr.arpa.", dns.TypeANY, "h.web.a.svc.cluster.local. is a ready endpoint with the address"},
		{"1.1.0.10.in-addr.arpa.", dns.TypeA, "h.web.a.svc.cluster.local. is a ready endpoint with the address\naddresses have records of type PTR, not A"},
		{"2.1.0.10.in-addr.arpa.", dns.TypePTR, "no Service has this address as a cluster IP, and no ready endpoint has it"},
		{"0.0.10.in-addr.arpa.", dns.TypePTR, "no Service has this address as a cluster IP, and no ready endpoint has it"},
	}
	table := explainedTable(t, zone.PodsDisabled)
	for _, tt := range tests {
		checkExplained(t, table, tt.name, tt.rrtype, tt.want)
	}
}

// TestExplainPods checks that the explanation of a pod's name depends on the kind of pod records.
func TestExplainPods(t *testing.T) {
	disabled, insecure, verified := explainedTable(t, zone.PodsDisabled), explainedTable(t, zone.PodsInsecure), explainedTable(t, zone.PodsVerified)
	checkExplained(t, disabled, "10-0-4-1.a.pod.cluster.local.", dns.TypeA, "pods have no names here…")
	checkExplained(t, insecure, "10-0-4-1.a.pod.cluster.local.", dns.TypeA, "the address is the one in the name…")
	checkExplained(t, insecure, "10-0-4-1.nowhere.pod.cluster.local.", dns.TypeA, "the address is the one in the name…\nthere is no Namespace nowhere")
	checkExplained(t, verified, "a.pod.cluster.local.", dns.TypeA, "a is a namespace…")
	checkExplained(t, verified, "10-0-4-1.a.pod.cluster.local.", dns.TypeA, "a Pod of namespace a has the address")
	checkExplained(t, verified, "10-0-4-2.a.pod.cluster.local.", dns.TypeA, "no Pod of namespace a has the address 10-0-4-2")
	checkExplained(t, verified, "10-0-4-1.x.a.pod.cluster.local.", dns.TypeA, "no Pod of namespace a has the address…")
}

// TestExplainBeforeAllObjectsAreSeen checks that before the first complete view a missing name is
// not explained as absent.
func TestExplainBeforeAllObjectsAreSeen(t *testing.T) {
	table, err := zone.New(config(zone.PodsDisabled, false))
	if err != nil {
		t.Fatal(err)
	}
	const unseen = "\nthe name server has not yet seen all objects…"
	checkExplained(t, table, "a.svc.cluster.local.", dns.TypeA, "there is no Namespace a"+unseen)
	dnstest.Apply(t, table, 1)
	checkExplained(t, table, "a.svc.cluster.local.", dns.TypeA, "there is no Namespace a")
}

func checkExplained(t *testing.T, table *zone.Table, text string, rrtype uint16, want string) {
	t.Helper()
	name, err := zone.ParseName(text)
	if err != nil {
		t.Fatal(err)
	}
	got, lines := table.Explain(name, rrtype), strings.Split(want, "\n")
	same := len(got) == len(lines)
	for i := 0; same && i < len(lines); i++ {
		start, shortened := strings.CutSuffix(lines[i], "…")
		same = got[i] == start || shortened && strings.HasPrefix(got[i], start)
	}
	if !same {
		t.Errorf("%s %s: explained as %q, want %q", text, dns.TypeToString[rrtype], got, lines)
	}
}
