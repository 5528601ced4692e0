package kubeapi

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"portolan.dev/dnssvc"
	"portolan.dev/endpointctl"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/kittest"
)

// named are the objects that have names: services of all types, and pods of all states.
var named = []struct{ path, body string }{
	{services, `{"metadata":{"name":"web"},"spec":{"clusterIP":"10.96.0.11","selector":{"app":"web"},"ports":[{"name":"http","port":80,"targetPort":8080},{"name":"dns","port":53,"protocol":"UDP"}]}}`},
	{services, `{"metadata":{"name":"plain"},"spec":{"clusterIP":"10.96.0.12","ports":[{"port":80}]}}`},
	{services, `{"metadata":{"name":"dual"},"spec":{"clusterIP":"10.96.0.13","clusterIPs":["10.96.0.13","fd00:96::13"],"ipFamilyPolicy":"RequireDualStack","selector":{"app":"peers"},"ports":[{"name":"http","port":80}]}}`},
	{services, `{"metadata":{"name":"six"},"spec":{"clusterIP":"fd00:96::14","clusterIPs":["fd00:96::14"],"ipFamilies":["IPv6"],"ports":[{"name":"http","port":80}]}}`},
	{services, `{"metadata":{"name":"peers"},"spec":{"clusterIP":"None","ipFamilyPolicy":"RequireDualStack","selector":{"app":"peers"},"ports":[{"name":"peer","port":9376},{"name":"gossip","port":9377,"protocol":"UDP"}]}}`},
	{services, `{"metadata":{"name":"early"},"spec":{"clusterIP":"None","publishNotReadyAddresses":true,"selector":{"app":"late"},"ports":[{"name":"http","port":80}]}}`},
	{services, `{"metadata":{"name":"late"},"spec":{"clusterIP":"None","selector":{"app":"late"},"ports":[{"name":"http","port":80}]}}`},
	{services, `{"metadata":{"name":"nobody"},"spec":{"clusterIP":"None","selector":{"app":"nobody"},"ports":[{"name":"http","port":80}]}}`},
	{services, `{"metadata":{"name":"idle"},"spec":{"clusterIP":"10.96.0.15","selector":{"app":"nobody"},"ports":[{"name":"http","port":80}]}}`},
	{services, `{"metadata":{"name":"ext"},"spec":{"type":"ExternalName","externalName":"db.example.com"}}`},
	{services, `{"metadata":{"name":"inside"},"spec":{"type":"ExternalName","externalName":"web.default.svc.cluster.local"}}`},
	{"/api/v1/namespaces", `{"metadata":{"name":"shop"}}`},
	{"/api/v1/namespaces", `{"metadata":{"name":"bare"}}`},
	{"/api/v1/namespaces/shop/services", `{"metadata":{"name":"web"},"spec":{"clusterIP":"10.96.0.16","ports":[{"name":"http","port":80}]}}`},
	{"/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices", `{"metadata":{"name":"web-1","labels":{"kubernetes.io/service-name":"web"}},"addressType":"IPv4",
		"endpoints":[{"addresses":["10.64.9.1"]},{"addresses":["10.64.9.2"],"hostname":"second"}],"ports":[{"name":"http","port":8080}]}`},
}

// pods are the pods behind the services, with more fields of their spec in more.
var pods = []struct {
	name, app string
	ips       []string
	ready     bool
	more      string
}{
	{"web-0", "web", []string{"10.64.0.1"}, true, ""},
	{"web-1", "web", []string{"10.64.0.2"}, false, ""},
	{"alpha", "peers", []string{"10.64.1.1", "fd00:64::1:1"}, true, `"hostname":"alpha","subdomain":"peers",`},
	{"beta", "peers", []string{"10.64.1.2", "fd00:64::1:2"}, true, `"hostname":"beta","subdomain":"other",`},
	{"gamma", "peers", []string{"10.64.1.3", "fd00:64::1:3"}, false, `"hostname":"gamma","subdomain":"peers",`},
	{"late", "late", []string{"10.64.2.1"}, false, ""},
}

// questions has the types to be asked for at each name.
var questions = map[string][]string{
	"dns-version.cluster.local.":                  {"TXT"},
	"web.default.svc.cluster.local.":              {"A", "AAAA", "SRV", "TXT", "MX", "CNAME"},
	"wEb.Default.sVc.Cluster.LOCAL.":              {"A", "SRV"},
	"_http._tcp.web.default.svc.cluster.local.":   {"SRV", "A"},
	"_HTTP._TCP.web.default.svc.cluster.local.":   {"SRV"},
	"_dns._udp.web.default.svc.cluster.local.":    {"SRV"},
	"_ftp._tcp.web.default.svc.cluster.local.":    {"SRV"},
	"_http._udp.web.default.svc.cluster.local.":   {"SRV"},
	"_tcp.web.default.svc.cluster.local.":         {"SRV", "A"},
	"10-64-0-1.web.default.svc.cluster.local.":    {"A", "AAAA"},
	"10-64-0-2.web.default.svc.cluster.local.":    {"A"},
	"plain.default.svc.cluster.local.":            {"A", "SRV"},
	"_80._tcp.plain.default.svc.cluster.local.":   {"SRV"},
	"dual.default.svc.cluster.local.":             {"A", "AAAA"},
	"six.default.svc.cluster.local.":              {"A", "AAAA", "SRV"},
	"peers.default.svc.cluster.local.":            {"A", "AAAA", "SRV"},
	"_peer._tcp.peers.default.svc.cluster.local.": {"SRV"}, "_gossip._udp.peers.default.svc.cluster.local.": {"SRV"},
	"alpha.peers.default.svc.cluster.local.":                                    {"A", "AAAA", "SRV"},
	"beta.peers.default.svc.cluster.local.":                                     {"A"},
	"10-64-1-2.peers.default.svc.cluster.local.":                                {"A"},
	"fd00-64--1-2.peers.default.svc.cluster.local.":                             {"AAAA"},
	"gamma.peers.default.svc.cluster.local.":                                    {"A"},
	"early.default.svc.cluster.local.":                                          {"A", "SRV"},
	"10-64-2-1.early.default.svc.cluster.local.":                                {"A"},
	"late.default.svc.cluster.local.":                                           {"A", "SRV"},
	"nobody.default.svc.cluster.local.":                                         {"A", "AAAA", "SRV"},
	"idle.default.svc.cluster.local.":                                           {"A", "SRV"},
	"ext.default.svc.cluster.local.":                                            {"A", "AAAA", "CNAME", "SRV", "MX", "TXT"},
	"inside.default.svc.cluster.local.":                                         {"A", "AAAA", "CNAME"},
	"web.shop.svc.cluster.local.":                                               {"A"},
	"10-64-9-1.web.shop.svc.cluster.local.":                                     {"A"},
	"second.web.shop.svc.cluster.local.":                                        {"A"},
	"10-64-9-2.web.shop.svc.cluster.local.":                                     {"A"},
	"nosuch.default.svc.cluster.local.":                                         {"A", "AAAA", "SRV"},
	"web.nosuch.svc.cluster.local.":                                             {"A"},
	"a.b.c.web.default.svc.cluster.local.":                                      {"A"},
	"default.svc.cluster.local.":                                                {"A"},
	"bare.svc.cluster.local.":                                                   {"A"},
	"svc.cluster.local.":                                                        {"A"},
	"pod.cluster.local.":                                                        {"A"},
	"cluster.local.":                                                            {"A", "NS"},
	"ns.dns.cluster.local.":                                                     {"A"},
	"nosuch.cluster.local.":                                                     {"A"},
	"10-64-0-1.default.pod.cluster.local.":                                      {"A", "AAAA"},
	"10-64-7-7.default.pod.cluster.local.":                                      {"A"},
	"10-64-0-1.shop.pod.cluster.local.":                                         {"A"},
	"fd00-64--1-1.default.pod.cluster.local.":                                   {"AAAA"},
	"default.pod.cluster.local.":                                                {"A"},
	"kubernetes.default.svc.cluster.local.":                                     {"A"},
	"11.0.96.10.in-addr.arpa.":                                                  {"PTR", "A"},
	"13.0.96.10.in-addr.arpa.":                                                  {"PTR"},
	"7.7.96.10.in-addr.arpa.":                                                   {"PTR"},
	"1.0.64.10.in-addr.arpa.":                                                   {"PTR"},
	"2.0.64.10.in-addr.arpa.":                                                   {"PTR"},
	"1.1.64.10.in-addr.arpa.":                                                   {"PTR"},
	"2.1.64.10.in-addr.arpa.":                                                   {"PTR"},
	"2.9.64.10.in-addr.arpa.":                                                   {"PTR"},
	"0.96.10.in-addr.arpa.":                                                     {"PTR"},
	"3.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.0.d.f.ip6.arpa.": {"PTR"},
	"1.0.0.0.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.0.0.d.f.ip6.arpa.": {"PTR"},
}

// otherAnswer is a question that CoreDNS answers otherwise than Portolan.
type otherAnswer struct {
	question          string // name and type
	portolan, coreDNS string
	why               string
}

// Reasons of differences.
const (
	alias      = "RFC 1034 §3.6.2: an alias is the answer to every type"
	exists     = "RFC 8020: a name exists if it, or a name below it, has records of any type"
	twoAddress = "CoreDNS counts an endpoint with an address of each family twice"
	noService  = "CoreDNS is a name server of the zone only at an address that a Service has"
)

var otherAnswers = []otherAnswer{
	{"inside.default.svc.cluster.local. AAAA", "NOERROR | @ 5 IN CNAME web.default.svc.cluster.local.", "NOERROR", alias},
	{"ext.default.svc.cluster.local. MX", "NOERROR | @ 5 IN CNAME db.example.com.", "NOERROR", alias},
	{"ext.default.svc.cluster.local. TXT", "NOERROR | @ 5 IN CNAME db.example.com.", "NOERROR", alias},
	{"11.0.96.10.in-addr.arpa. A", "NOERROR", "NXDOMAIN", exists},
	{"0.96.10.in-addr.arpa. PTR", "NOERROR", "NXDOMAIN", exists},
	{"_tcp.web.default.svc.cluster.local. A", "NOERROR", "NXDOMAIN", exists},
	{"_tcp.web.default.svc.cluster.local. SRV", "NOERROR", "NXDOMAIN", exists},
	{"cluster.local. NS", "NOERROR | @ 5 IN NS ns.dns.cluster.local.", "NOERROR", noService},
	{"ns.dns.cluster.local. A", "NOERROR | @ 5 IN A 127.0.0.1", "NOERROR", noService},
	{"_http._tcp.web.default.svc.cluster.local. A", "NOERROR", "NOERROR | @ 5 IN A 10.96.0.11", "the specification gives the name of a port SRV records only"},
	{"alpha.peers.default.svc.cluster.local. SRV", "NOERROR", "NOERROR | @ 5 IN SRV 0 25 9376 @ | @ 5 IN SRV 0 25 9377 @",
		"the specification gives the name of an endpoint address records only"},
	{"dns-version.cluster.local. TXT", `NOERROR | @ 5 IN TXT "1.1.0"`, `NOERROR | @ 28800 IN TXT "1.1.0"`, "Portolan has one TTL"},
	{"wEb.Default.sVc.Cluster.LOCAL. SRV", "NOERROR | @ 5 IN SRV 0 50 53 web.default.svc.cluster.local. | @ 5 IN SRV 0 50 80 web.default.svc.cluster.local.",
		"NOERROR | @ 5 IN SRV 0 50 53 web.default.svc.Cluster.LOCAL. | @ 5 IN SRV 0 50 80 web.default.svc.Cluster.LOCAL.", "CoreDNS ends names with the zone as it was asked"},
	{"_peer._tcp.peers.default.svc.cluster.local. SRV", headless(33, 9376), headless(25, 9376), twoAddress},
	{"_gossip._udp.peers.default.svc.cluster.local. SRV", headless(33, 9377), headless(25, 9377), twoAddress},
	{"peers.default.svc.cluster.local. SRV", headless(16, 9376, 9377), headless(12, 9376, 9377), twoAddress},
}

// headless returns the SRV records of the headless service peers.
func headless(weight int, ports ...int) string {
	text := "NOERROR"
	for _, port := range ports {
		for _, endpoint := range []string{"10-64-1-2", "alpha", "fd00-64--1-2"} {
			text += fmt.Sprintf(" | @ 5 IN SRV 0 %d %d %s.peers.default.svc.cluster.local.", weight, port, endpoint)
		}
	}
	return text
}

// TestCoreDNS asks Portolan's name server and CoreDNS, which both follow one registry, the same.
func TestCoreDNS(t *testing.T) {
	i := installIn(t, true, serviceRanges)
	i.publish()
	ours := i.nameServer()
	port := freePort(t)
	corefile := configFile(t, "Corefile", "/etc/portolan/kubeconfig", i.kubeconfig("viewer", i.url), ":53", ":"+port)
	start(t, exec.Command(buildClient(t, "kubeclients/coredns"), "-conf", corefile), nil)
	theirs := "127.0.0.1:" + port
	kittest.Eventually(t, "the same answers", func() error { return compare(ours, theirs) })

	i.must("PATCH", "/api/v1/namespaces/default/pods/web-1/status", `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
	i.must("DELETE", services+"/plain", "")
	kittest.Eventually(t, "the changes", func() error {
		endpoint, service := ask(ours, "10-64-0-2.web.default.svc.cluster.local.", "A"), ask(ours, "plain.default.svc.cluster.local.", "A")
		if endpoint != "NOERROR | @ 5 IN A 10.64.0.2" || service != "NXDOMAIN" {
			return fmt.Errorf("%s, %s", endpoint, service)
		}
		return compare(ours, theirs)
	})
}

// publish creates the services and the pods, and runs the daemon that makes endpoints of them.
func (i *installation) publish() {
	i.Helper()
	var c endpointctl.Config
	config.Defaults(&c)
	c.Addr, c.Registry = "127.0.0.1:0", i.registry
	run(i, "endpointctl", i.network, c, endpointctl.New)
	for _, o := range named {
		i.must("POST", o.path, o.body)
	}
	const path = "/api/v1/namespaces/default/pods"
	for _, p := range pods {
		i.must("POST", path, fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"app":%q}},"spec":{%s"containers":[{"name":"c"}]}}`, p.name, p.app, p.more))
		ready := map[bool]string{true: "True", false: "False"}[p.ready]
		ips := make([]string, len(p.ips))
		for n, ip := range p.ips {
			ips[n] = fmt.Sprintf(`{"ip":%q}`, ip)
		}
		i.must("PATCH", path+"/"+p.name+"/status", fmt.Sprintf(`{"status":{"phase":"Running","podIP":%q,"podIPs":[%s],"conditions":[{"type":"Ready","status":%q}]}}`,
			p.ips[0], strings.Join(ips, ","), ready))
	}
}

// nameServer runs dnssvc, and returns its address.
func (i *installation) nameServer() string {
	i.Helper()
	var c dnssvc.Config
	config.Defaults(&c)
	c.Addr, c.Registry, c.Listen, c.PodRecords, c.LameDuck = "127.0.0.1:0", i.registry, []string{"127.0.0.1:0"}, "verified", 0
	c.ServiceCIDR = serviceRanges
	c.PodCIDR = []netip.Prefix{netip.MustParsePrefix("10.64.0.0/16"), netip.MustParsePrefix("fd00:64::/64")}
	return run(i, "dnssvc", i.network, c, dnssvc.New).DNSAddrs()[0]
}

// compare asks both servers all questions. The error lists each difference that otherAnswers lacks, and
// each difference in otherAnswers that no longer exists.
func compare(ours, theirs string) error {
	listed := map[string]otherAnswer{}
	for _, d := range otherAnswers {
		listed[d.question] = d
	}
	var errs []error
	for name, types := range questions {
		for _, qtype := range types {
			key := name + " " + qtype
			portolan, coreDNS := ask(ours, name, qtype), ask(theirs, name, qtype)
			want, known := listed[key]
			switch {
			case known && (portolan != want.portolan || coreDNS != want.coreDNS):
				errs = append(errs, fmt.Errorf("%s: Portolan: %s; CoreDNS: %s; but listed are %s and %s, because %s", key, portolan, coreDNS, want.portolan, want.coreDNS, want.why))
			case !known && portolan != coreDNS:
				errs = append(errs, fmt.Errorf("%s: Portolan: %s; CoreDNS: %s", key, portolan, coreDNS))
			}
			delete(listed, key)
		}
	}
	for key := range listed {
		errs = append(errs, fmt.Errorf("%s is listed and never asked", key))
	}
	return errors.Join(errs...)
}

// ask asks by TCP, and returns the code and the sorted records of the answer.
func ask(addr, name, qtype string) string {
	question := new(dns.Msg).SetQuestion(name, dns.StringToType[qtype])
	answer, _, err := (&dns.Client{Net: "tcp", Timeout: 5 * time.Second}).Exchange(question, addr)
	if err != nil {
		return err.Error()
	}
	records := []string{dns.RcodeToString[answer.Rcode]}
	for _, record := range answer.Answer {
		words := strings.Fields(record.String())
		for n := range words {
			if words[n] == name {
				words[n] = "@"
			}
		}
		records = append(records, strings.Join(words, " "))
	}
	slices.Sort(records[1:])
	return strings.Join(records, " | ")
}
