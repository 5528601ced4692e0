package spec

import (
	"net/netip"
	"slices"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/balancer"
)

// EdgeAddresses returns the load-balancer addresses of a service that edges serve: those with ipMode
// Proxy of a service of their class.
func EdgeAddresses(svc *corev1.Service) []netip.Addr {
	if !IsLoadBalancer(svc) || svc.GetSpec().GetLoadBalancerClass() != balancer.ClassEdge {
		return nil
	}
	var addrs []netip.Addr
	for _, ingress := range svc.GetStatus().GetLoadBalancer().GetIngress() {
		addr, err := netip.ParseAddr(ingress.GetIp())
		if err == nil && ingress.GetIpMode() == corev1.IPMode_IP_MODE_PROXY && !slices.Contains(addrs, addr) {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}
