package model

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// Frontend is an address and port of a service, with the backends behind it.
type Frontend struct {
	Service  *corev1.Service
	Exposure string
	Address  netip.AddrPort
	Protocol corev1.Protocol
	Backends []string // host:port, sorted
}

// String returns the line of a frontend in Forwarding.
func (f Frontend) String() string {
	return Forwarded(f.Exposure, f.Address.String(), Protocol(f.Protocol), f.Backends)
}

// Forwarded returns the line of a frontend in Forwarding.
func Forwarded(exposure, address, protocol string, backends []string) string {
	slices.Sort(backends)
	return fmt.Sprintf("%s %s/%s -> %s", exposure, address, protocol, strings.Join(slices.Compact(backends), " "))
}

// Frontends returns the frontends that a node with these addresses must forward.
func (w *World) Frontends(node []netip.Addr) []Frontend {
	var all []Frontend
	for _, svc := range Of[*corev1.Service](w) {
		if IsExternalName(svc) || object.IsHeadless(svc) {
			continue
		}
		endpoints := w.endpoints(svc)
		for _, p := range svc.GetSpec().GetPorts() {
			for _, at := range reached(svc, p, node) {
				at.Service, at.Protocol = svc, p.GetProtocol()
				at.Backends = backends(endpoints, p, at.Address.Addr().Is4())
				all = append(all, at)
			}
		}
	}
	return all
}

// reached returns the addresses at which a port of a service is reached.
func reached(svc *corev1.Service, p *corev1.ServicePort, node []netip.Addr) []Frontend {
	var all []Frontend
	add := func(exposure string, addr netip.Addr, port int32) {
		all = append(all, Frontend{Exposure: exposure, Address: netip.AddrPortFrom(addr, uint16(port))})
	}
	for _, ip := range svc.GetSpec().GetClusterIps() {
		add("clusterIP", netip.MustParseAddr(ip), p.GetPort())
	}
	for _, ip := range svc.GetSpec().GetExternalIps() {
		add("externalIP", netip.MustParseAddr(ip), p.GetPort())
	}
	for _, ingress := range svc.GetStatus().GetLoadBalancer().GetIngress() {
		add("loadBalancerIP", netip.MustParseAddr(ingress.GetIp()), p.GetPort())
	}
	if p.GetNodePort() > 0 {
		// The node's addresses are of both families. An address of a family that the service lacks
		// is refused.
		for _, addr := range node {
			add("nodePort", addr, p.GetNodePort())
		}
	}
	return all
}

// backends returns the ready endpoints of a family that have a port.
func backends(endpoints []endpoint, p *corev1.ServicePort, v4 bool) []string {
	var all []string
	for _, e := range endpoints {
		for _, port := range e.ports {
			if e.ready && e.address.Is4() == v4 && port.name == p.GetName() && port.protocol == p.GetProtocol() {
				all = append(all, netip.AddrPortFrom(e.address, uint16(port.number)).String())
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Forwarding returns the lines of the frontends that a node with these addresses must forward.
func (w *World) Forwarding(node []netip.Addr) Lines {
	lines := Lines{}
	for _, f := range w.Frontends(node) {
		lines.add(f.Service, "%s", f)
	}
	return lines
}
