package kinds

import (
	"fmt"
	"slices"

	corev1 "portolan.dev/proto/portolan/core/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

func settleService(w World, o, old object.Object) apierr.Violations {
	svc, _ := o.(*corev1.Service)
	before, _ := old.(*corev1.Service)
	return spec.ResolveFamilies(svc, before, w.Families)
}

func checkService(w World, o, old object.Object) apierr.Violations {
	svc, _ := o.(*corev1.Service)
	before, _ := old.(*corev1.Service)
	found := append(checkExternalIPs(w, svc, before), checkClusterIPs(w, svc, before)...)
	return append(found, checkHeadlessPorts(svc)...)
}

// checkExternalIPs refuses a node's own address: the node would give everything that arrives for it to the service, its own remote access included. What
// the service had before stays: a node that came later must not make it unchangeable.
func checkExternalIPs(w World, svc, old *corev1.Service) apierr.Violations {
	var found apierr.Violations
	for i, ip := range svc.GetSpec().GetExternalIps() {
		if slices.Contains(old.GetSpec().GetExternalIps(), ip) {
			continue
		}
		for _, node := range w.Indexes.NodeAddresses.Lookup(canonical(ip)) {
			found.Add(fmt.Sprintf("spec.externalIPs[%d]", i), apierr.ReasonInvalid, "invalid value %q: may not be the address of a node (%s)", ip, node.Key.Name)
		}
	}
	return found
}

// checkServiceStatus refuses a node's own address as that of a load balancer, for the same reason. A provider that answers there itself says so
// by ipMode Proxy: then nodes leave the traffic alone.
func checkServiceStatus(w World, o, old object.Object) apierr.Violations {
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
		for _, node := range w.Indexes.NodeAddresses.Lookup(canonical(ip)) {
			found.Add(fmt.Sprintf("status.loadBalancer.ingress[%d].ip", i), apierr.ReasonInvalid,
				"invalid value %q: may not be the address of a node (%s), unless ipMode is Proxy", ip, node.Key.Name)
		}
	}
	return found
}

// checkClusterIPs refuses an address that a backend has already: nodes would take the backend's own traffic for the service's.
func checkClusterIPs(w World, svc, old *corev1.Service) apierr.Violations {
	var found apierr.Violations
	if !spec.NeedsClusterIP(svc) {
		return nil
	}
	for i, ip := range svc.GetSpec().GetClusterIps() {
		if ip == "" || slices.Contains(old.GetSpec().GetClusterIps(), ip) {
			continue
		}
		for _, backend := range w.Indexes.Backends.Lookup(canonical(ip)) {
			found.Add(fmt.Sprintf("spec.clusterIPs[%d]", i), apierr.ReasonInvalid,
				"invalid value %q: is the address of a backend already (%s %s)", ip, backend.Key.Kind, backend.Key.Path())
		}
	}
	return found
}

// checkHeadlessPorts: nobody translates the ports of a headless service whose endpoints are written by hand, so another target port would be a promise
// that is not kept.
func checkHeadlessPorts(svc *corev1.Service) apierr.Violations {
	var found apierr.Violations
	if !spec.IsHeadless(svc) || len(svc.GetSpec().GetSelector()) > 0 {
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

func checkEndpointSlice(w World, o, old object.Object) apierr.Violations {
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

func checkEndpoints(w World, o, old object.Object) apierr.Violations {
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

// checkBackend refuses a virtual IP as a backend: no node translates twice.
func checkBackend(w World, found *apierr.Violations, field, address string) {
	for _, svc := range w.Indexes.ClusterIPs.Lookup(canonical(address)) {
		found.Add(field, apierr.ReasonInvalid, "invalid value %q: may not be the cluster IP of a service (%s)", address, svc.Key.Path())
	}
}
