package model

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/miekg/dns"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// Zone is the zone of all names.
const Zone = "cluster.local."

// Names returns the expected records of types A, AAAA, CNAME and PTR, and the SRV records of ports.
func (w *World) Names() Lines {
	lines := Lines{}
	for _, svc := range Of[*corev1.Service](w) {
		base := fmt.Sprintf("%s.%s.svc.%s", svc.GetMetadata().GetName(), svc.GetMetadata().GetNamespace(), Zone)
		switch {
		case IsExternalName(svc):
			lines.add(svc, "%s CNAME %s", base, dns.Fqdn(svc.GetSpec().GetExternalName()))
		case object.IsHeadless(svc):
			w.headless(lines, svc, base)
		default:
			w.clusterIP(lines, svc, base)
		}
	}
	lines.Compact() // several slices may have the same endpoint
	return lines
}

func (w *World) clusterIP(lines Lines, svc *corev1.Service, base string) {
	for _, ip := range svc.GetSpec().GetClusterIps() {
		addr := netip.MustParseAddr(ip)
		lines.add(svc, "%s %s %s", base, recordType(addr), addr)
		reverse, err := dns.ReverseAddr(ip)
		if err != nil {
			panic(err) // the address was parsed above
		}
		lines.add(svc, "%s PTR %s", reverse, base)
	}
	for _, p := range svc.GetSpec().GetPorts() {
		lines.add(svc, "%s SRV %d %s", service(p.GetName(), p.GetProtocol(), base), p.GetPort(), base)
	}
	for _, e := range w.endpoints(svc) {
		if e.ready {
			lines.add(svc, "%s.%s %s %s", dashed(e.address), base, recordType(e.address), e.address)
		}
	}
}

func (w *World) headless(lines Lines, svc *corev1.Service, base string) {
	for _, e := range w.endpoints(svc) {
		if !e.ready {
			continue
		}
		lines.add(svc, "%s %s %s", base, recordType(e.address), e.address)
		lines.add(svc, "%s.%s %s %s", dashed(e.address), base, recordType(e.address), e.address)
		for _, p := range e.ports {
			lines.add(svc, "%s SRV %d %s.%s", service(p.name, p.protocol, base), p.number, dashed(e.address), base)
		}
	}
}

func service(port string, protocol corev1.Protocol, base string) string {
	return fmt.Sprintf("_%s._%s.%s", port, strings.ToLower(Protocol(protocol)), base)
}

func recordType(a netip.Addr) string {
	if a.Is4() {
		return "A"
	}
	return "AAAA"
}

// dashed returns the name of an endpoint without a host name.
func dashed(a netip.Addr) string { return strings.NewReplacer(".", "-", ":", "-").Replace(a.String()) }
