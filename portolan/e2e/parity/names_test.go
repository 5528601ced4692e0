package parity

import (
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/nodeagent/kerneltest/topology"
)

// names has the descriptions of dns.go. Pods ask the name server by its address, because this suite
// does not cover their resolv.conf.
var names = []description{
	{"should provide DNS for services", func(s *scene) {
		svc := s.service("web", nil)
		ip, name := svc.GetSpec().GetClusterIp(), s.name("web")
		s.answers(name, "A", "A "+ip)
		s.answers("_http._tcp."+name, "SRV", "SRV 0 100 80 "+name)
		reverse, err := dns.ReverseAddr(ip)
		if err != nil {
			s.Fatal(err)
		}
		s.answers(reverse, "PTR", "PTR "+name)
		s.deleteService("web")
		s.answers(name, "A")
		s.service("bare", headless)
		a, b := s.pod("bare", 0), s.pod("bare", 1)
		s.answers(s.name("bare"), "A", "A "+a.addrs[0].String(), "A "+b.addrs[0].String())
		dashed := func(p *pod) string { return strings.ReplaceAll(p.addrs[0].String(), ".", "-") }
		s.answers("_http._tcp."+s.name("bare"), "SRV",
			"SRV 0 50 8080 "+dashed(a)+"."+s.name("bare"), "SRV 0 50 8080 "+dashed(b)+"."+s.name("bare"))
	}},
	{"should provide DNS for pods for Hostname", func(s *scene) {
		s.service("web", headless)
		p := s.pod("web", 0, func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "db-0", "web" })
		s.answers("db-0."+s.name("web"), "A", "A "+p.addrs[0].String())
	}},
	{"should provide DNS for pods for Subdomain", func(s *scene) {
		s.service("web", headless)
		p := s.pod("web", 0, func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "db-1", "web" })
		s.answers("_http._tcp."+s.name("web"), "SRV", "SRV 0 100 8080 db-1."+s.name("web"))
		p.delete()
		s.answers("db-1."+s.name("web"), "A")
	}},
	{"should provide DNS for ExternalName services", func(s *scene) {
		s.service("web", external)
		s.answers(s.name("web"), "CNAME", "CNAME www.example.com.")
		s.update("web", func(svc *corev1.Service) { svc.Spec.ExternalName = "www.example.org" })
		s.answers(s.name("web"), "CNAME", "CNAME www.example.org.")
		svc := s.update("web", func(svc *corev1.Service) { svc.Spec = s.virtual(corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP) })
		s.answers(s.name("web"), "A", "A "+svc.GetSpec().GetClusterIp())
	}},
	{"should provide DNS for the cluster", func(s *scene) {
		svc := s.service("web", nil)
		question := new(dns.Msg).SetQuestion(s.name("web"), dns.TypeA)
		for _, network := range []string{"udp", "tcp"} {
			for _, from := range s.everywhere() {
				s.eventually("an answer by "+network, func() error {
					return answered(s.exchange(from, network, question), "A "+svc.GetSpec().GetClusterIp())
				})
			}
		}
	}},
}

// name returns the full name of a service of the scene.
func (s *scene) name(service string) string {
	return fmt.Sprintf("%s.%s.svc.cluster.local.", service, s.namespace)
}

// answers waits until a pod that asks for a name gets exactly these records.
func (s *scene) answers(name, qtype string, want ...string) {
	s.Helper()
	from := s.client(0).namespace
	question := new(dns.Msg).SetQuestion(name, dns.StringToType[qtype])
	s.eventually(name+" "+qtype, func() error { return answered(s.exchange(from, "udp", question), want...) })
}

type exchanged struct {
	answer *dns.Msg
	err    error
}

func (s *scene) exchange(from *topology.Namespace, network string, question *dns.Msg) (got exchanged) {
	got.err = from.Do(func() (err error) {
		got.answer, _, err = (&dns.Client{Net: network, Timeout: answerTime}).Exchange(question, s.lab.DNS().String())
		return err
	})
	return got
}

// answered compares the answers with records, each as type and data.
func answered(got exchanged, want ...string) error {
	if got.err != nil {
		return got.err
	}
	var records []string
	for _, record := range got.answer.Answer {
		fields := strings.Fields(record.String())
		records = append(records, strings.Join(fields[3:], " "))
	}
	slices.Sort(records)
	slices.Sort(want)
	if !slices.Equal(records, want) {
		return fmt.Errorf("%s with %q, want %q", dns.RcodeToString[got.answer.Rcode], records, want)
	}
	return nil
}
