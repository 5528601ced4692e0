package rules

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

func completeService(w Context, o, old object.Object) apierr.Violations {
	svc, _ := o.(*corev1.Service)
	before, _ := old.(*corev1.Service)
	return spec.ResolveFamilies(svc, before, w.Families)
}

func checkService(w Context, o, old object.Object) apierr.Violations {
	svc, _ := o.(*corev1.Service)
	before, _ := old.(*corev1.Service)
	return slices.Concat(checkExternalIPs(w, svc, before), checkClusterIPs(w, svc, before), checkHeadlessPorts(svc), checkBalancer(w, svc, before))
}

// checkExternalIPs refuses addresses outside the ranges that the operator allows, because nodes
// would take the traffic for them away from the machine that has the address. It also refuses the
// address of a node, because the node would send all traffic for its own address to the service,
// including remote access to the node. Addresses that the service had before stay, so that a range
// or a node that changed later does not make the service unchangeable.
func checkExternalIPs(w Context, svc, old *corev1.Service) apierr.Violations {
	var found apierr.Violations
	for i, ip := range svc.GetSpec().GetExternalIps() {
		if slices.Contains(old.GetSpec().GetExternalIps(), ip) {
			continue
		}
		field := fmt.Sprintf("spec.externalIPs[%d]", i)
		if addr, err := netip.ParseAddr(ip); err == nil && !slices.ContainsFunc(w.Rules.ExternalIPs, func(p netip.Prefix) bool { return p.Contains(addr) }) {
			found.Add(field, apierr.ReasonForbidden, "forbidden: %q is not in a range that the operator allows: the registry's external-ip-ranges has %s", ip, rangesText(w.Rules.ExternalIPs))
		}
		for _, node := range w.Indexes.NodeAddresses.Lookup(canonicalAddress(ip)) {
			found.Add(field, apierr.ReasonInvalid, "invalid value %q: may not be the address of a node (%s)", ip, node.Key.Name)
		}
	}
	return found
}

// rangesText returns ranges as text for an error.
func rangesText(ranges []netip.Prefix) string {
	if len(ranges) == 0 {
		return "none"
	}
	texts := make([]string, len(ranges))
	for i, p := range ranges {
		texts[i] = p.String()
	}
	return strings.Join(texts, ", ")
}

// checkServiceStatus refuses the address of a node as the address of a load balancer, because the node
// would send all traffic for its own address to the service. It allows the address with ipMode Proxy, with which the provider answers at that address
// itself and nodes do not redirect the traffic.
func checkServiceStatus(w Context, o, old object.Object) apierr.Violations {
	svc, _ := o.(*corev1.Service)
	before, _ := old.(*corev1.Service)
	had := map[string]bool{}
	for _, ingress := range before.GetStatus().GetLoadBalancer().GetIngress() {
		had[ingress.GetIp()] = true
	}
	var found apierr.Violations
	for i, ingress := range svc.GetStatus().GetLoadBalancer().GetIngress() {
		ip := ingress.GetIp()
		if ip == "" || had[ip] || ingress.GetIpMode() == corev1.IPMode_IP_MODE_PROXY {
			continue
		}
		for _, node := range w.Indexes.NodeAddresses.Lookup(canonicalAddress(ip)) {
			found.Add(fmt.Sprintf("status.loadBalancer.ingress[%d].ip", i), apierr.ReasonInvalid,
				"invalid value %q: may not be the address of a node (%s), unless ipMode is Proxy", ip, node.Key.Name)
		}
	}
	return found
}

// checkClusterIPs refuses an address that a backend already has, because nodes would redirect the
// backend's own traffic to the service.
func checkClusterIPs(w Context, svc, old *corev1.Service) apierr.Violations {
	var found apierr.Violations
	if !object.NeedsClusterIP(svc) {
		return nil
	}
	for i, ip := range svc.GetSpec().GetClusterIps() {
		if ip == "" || slices.Contains(old.GetSpec().GetClusterIps(), ip) {
			continue
		}
		for _, backend := range w.Indexes.Backends.Lookup(canonicalAddress(ip)) {
			found.Add(fmt.Sprintf("spec.clusterIPs[%d]", i), apierr.ReasonInvalid,
				"invalid value %q: is the address of a backend already (%s %s)", ip, backend.Key.Kind, backend.Key.Path())
		}
	}
	return found
}

// checkHeadlessPorts refuses a target port that differs from the port in a headless service without
// selector, because nothing translates the ports of such a service.
func checkHeadlessPorts(svc *corev1.Service) apierr.Violations {
	var found apierr.Violations
	if !object.IsHeadless(svc) || len(svc.GetSpec().GetSelector()) > 0 {
		return nil
	}
	for i, port := range svc.GetSpec().GetPorts() {
		target := port.GetTargetPort()
		if target.GetName() != "" || target.GetNumber() != port.GetPort() {
			found.Add(fmt.Sprintf("spec.ports[%d].targetPort", i), apierr.ReasonInvalid,
				"invalid value %q: must equal port in a headless service without selector", targetText(target))
		}
	}
	return found
}

func targetText(target *corev1.IntOrString) string {
	if name := target.GetName(); name != "" {
		return name
	}
	return fmt.Sprint(target.GetNumber())
}

func checkEndpointSlice(w Context, o, old object.Object) apierr.Violations {
	slice, _ := o.(*corev1.EndpointSlice)
	before, _ := old.(*corev1.EndpointSlice)
	had := map[string]bool{}
	for _, endpoint := range before.GetEndpoints() {
		for _, address := range endpoint.GetAddresses() {
			had[address] = true
		}
	}
	found := checkManagedBy(w, o, old)
	for i, endpoint := range slice.GetEndpoints() {
		for j, address := range endpoint.GetAddresses() {
			if !had[address] {
				checkBackend(w, &found, fmt.Sprintf("endpoints[%d].addresses[%d]", i, j), address)
			}
		}
	}
	return found
}

func checkEndpoints(w Context, o, old object.Object) apierr.Violations {
	endpoints, _ := o.(*corev1.Endpoints)
	before, _ := old.(*corev1.Endpoints)
	had := map[string]bool{}
	for _, subset := range before.GetSubsets() {
		for _, address := range slices.Concat(subset.GetAddresses(), subset.GetNotReadyAddresses()) {
			had[address.GetIp()] = true
		}
	}
	found := checkManagedBy(w, o, old)
	for i, subset := range endpoints.GetSubsets() {
		for j, address := range subset.GetAddresses() {
			if !had[address.GetIp()] {
				checkBackend(w, &found, fmt.Sprintf("subsets[%d].addresses[%d].ip", i, j), address.GetIp())
			}
		}
		for j, address := range subset.GetNotReadyAddresses() {
			if !had[address.GetIp()] {
				checkBackend(w, &found, fmt.Sprintf("subsets[%d].notReadyAddresses[%d].ip", i, j), address.GetIp())
			}
		}
	}
	return found
}

// checkBackend refuses a virtual IP as the address of a backend, because nodes translate an address
// only once.
func checkBackend(w Context, found *apierr.Violations, field, address string) {
	for _, svc := range w.Indexes.ClusterIPs.Lookup(canonicalAddress(address)) {
		found.Add(field, apierr.ReasonInvalid, "invalid value %q: may not be the cluster IP of a service (%s)", address, svc.Key.Path())
	}
}
