package spec

import (
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
)

// ValidateEndpoints checks a new Endpoints.
func ValidateEndpoints(endpoints *corev1.Endpoints, rules Rules) apierr.Violations {
	var c checks
	checkSubsets(&c, endpoints.GetSubsets(), rules)
	return c.found
}

func checkSubsets(c *checks, subsets []*corev1.EndpointSubset, rules Rules) {
	total := 0
	for _, subset := range subsets {
		total += len(subset.GetAddresses()) + len(subset.GetNotReadyAddresses())
	}
	if total > MaxEndpoints {
		c.tooMany("subsets", total, MaxEndpoints)
		return
	}
	for i, subset := range subsets {
		field := indexed("subsets", i)
		if len(subset.GetAddresses())+len(subset.GetNotReadyAddresses()) == 0 {
			c.required(field, "must have addresses or notReadyAddresses")
		}
		checkSubsetAddresses(c, field+".addresses", subset.GetAddresses(), rules)
		checkSubsetAddresses(c, field+".notReadyAddresses", subset.GetNotReadyAddresses(), rules)
		checkSubsetPorts(c, field+".ports", subset.GetPorts())
	}
}

func checkSubsetAddresses(c *checks, field string, addresses []*corev1.EndpointAddress, rules Rules) {
	for i, address := range addresses {
		checkEndpointAddress(c, indexed(field, i)+".ip", address.GetIp(), rules)
		if name := address.GetHostname(); name != "" {
			c.syntax(indexed(field, i)+".hostname", name, DNSLabel(name))
		}
		if address.NodeName != nil {
			c.syntax(indexed(field, i)+".nodeName", *address.NodeName, DNSSubdomain(*address.NodeName))
		}
	}
}

func checkSubsetPorts(c *checks, field string, ports []*corev1.EndpointSubsetPort) {
	if !c.atMost(field, len(ports), MaxPortsPerSlice) {
		return
	}
	names := map[string]bool{}
	for i, port := range ports {
		field := indexed(field, i)
		switch name := port.GetName(); {
		case name == "" && len(ports) > 1:
			c.required(field+".name", "with more than one port every port has a name")
		case name == "":
		case names[name]:
			c.duplicate(field+".name", name)
		default:
			c.syntax(field+".name", name, DNSLabel(name))
			names[name] = true
		}
		checkPort(c, field+".port", port.GetPort())
		checkEnum(c, field+".protocol", port.GetProtocol())
		checkAppProtocol(c, field, port.AppProtocol)
	}
}
