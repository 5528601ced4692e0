package object

import (
	"net/netip"
	"slices"

	corev1 "portolan.dev/api/core/v1"
)

// ClusterIPs returns the cluster IPs of a service as they are stored: one per family, or "None" for
// a headless service. An object that no registry has completed may have only spec.clusterIP.
func ClusterIPs(svc *corev1.Service) []string {
	return allOf(svc.GetSpec().GetClusterIps(), svc.GetSpec().GetClusterIp())
}

// PodIPs returns the addresses in a pod's status. An object that no registry has completed may have
// only status.podIP.
func PodIPs(pod *corev1.Pod) []string {
	return allOf(pod.GetStatus().GetPodIps(), pod.GetStatus().GetPodIp())
}

func allOf(list []string, first string) []string {
	if len(list) == 0 && first != "" {
		return []string{first}
	}
	return list
}

// ParseAddrs parses addresses, and returns the valid ones without duplicates. An IPv4-mapped IPv6
// address becomes an IPv4 address.
func ParseAddrs(texts []string) []netip.Addr {
	var addrs []netip.Addr
	for _, text := range texts {
		if addr, err := netip.ParseAddr(text); err == nil && !slices.Contains(addrs, addr.Unmap()) {
			addrs = append(addrs, addr.Unmap())
		}
	}
	return addrs
}
