package spec

import (
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

// Limits of EndpointSlices and Endpoints. The endpoint controller makes slices and Endpoints from services
// and pods, and slices from Endpoints. So a limit of a slice is also a limit of the objects that it is made
// from, or the controller splits and shortens the lists. The README of endpointctl has the table.
const (
	MaxEndpointsPerSlice = 1000
	// MaxPortsPerSlice is Kubernetes' limit. It was 100 before kubernetes#99795. It is the limit of the ports of a
	// Service and of a subset of an Endpoints too.
	MaxPortsPerSlice = 20000
	MaxEndpoints     = 1000 // addresses of an Endpoints
	maxAddresses     = 100
	maxHints         = 8
	maxWeight        = 65535
)

// ValidateEndpointSlice checks a new slice.
func ValidateEndpointSlice(slice *corev1.EndpointSlice, rules Rules) apierr.Violations {
	var c checks
	checkSlice(&c, slice, rules)
	return c.found
}

// ValidateEndpointSliceUpdate checks a slice that is to replace old.
func ValidateEndpointSliceUpdate(updated, old *corev1.EndpointSlice, rules Rules) apierr.Violations {
	var c checks
	if updated.GetAddressType() != old.GetAddressType() {
		c.immutable("addressType", EnumName(updated.GetAddressType()))
	}
	checkSlice(&c, updated, rules)
	return c.found
}

func checkSlice(c *checks, slice *corev1.EndpointSlice, rules Rules) {
	if slice.GetAddressType() == 0 {
		c.required("addressType", "must be one of "+strings.Join(EnumNames[corev1.AddressType](), ", "))
	} else {
		checkEnum(c, "addressType", slice.GetAddressType())
	}
	if service, ok := slice.GetMetadata().GetLabels()[object.LabelServiceName]; ok && service == "" {
		c.invalid("metadata.labels["+object.LabelServiceName+"]", service, "names the service of the slice")
	}
	checkSlicePorts(c, slice.GetPorts())
	if n := len(slice.GetEndpoints()); n > MaxEndpointsPerSlice {
		c.tooMany("endpoints", n, MaxEndpointsPerSlice)
		return
	}
	for i, endpoint := range slice.GetEndpoints() {
		checkEndpoint(c, indexed("endpoints", i), endpoint, slice.GetAddressType(), rules)
	}
}

func checkSlicePorts(c *checks, ports []*corev1.EndpointPort) {
	if len(ports) > MaxPortsPerSlice {
		c.tooMany("ports", len(ports), MaxPortsPerSlice)
		return
	}
	names := map[string]bool{}
	for i, port := range ports {
		field := indexed("ports", i)
		if name := port.GetName(); name != "" {
			c.syntax(field+".name", name, DNSLabel(name))
		}
		if names[port.GetName()] {
			c.duplicate(field+".name", port.GetName())
		}
		names[port.GetName()] = true
		checkEnum(c, field+".protocol", port.GetProtocol())
		if port.Port != nil {
			checkPort(c, field+".port", *port.Port)
		}
		checkAppProtocol(c, field, port.AppProtocol)
	}
}

func checkEndpoint(c *checks, field string, endpoint *corev1.Endpoint, family corev1.AddressType, rules Rules) {
	switch n := len(endpoint.GetAddresses()); {
	case n == 0:
		c.required(field+".addresses", "an endpoint has at least one address")
	case n > maxAddresses:
		c.tooMany(field+".addresses", n, maxAddresses)
	default:
		for i, address := range endpoint.GetAddresses() {
			checkSliceAddress(c, indexed(field+".addresses", i), address, family, rules)
		}
	}
	if endpoint.Hostname != nil {
		c.syntax(field+".hostname", *endpoint.Hostname, DNSLabel(*endpoint.Hostname))
	}
	if endpoint.NodeName != nil {
		c.syntax(field+".nodeName", *endpoint.NodeName, DNSSubdomain(*endpoint.NodeName))
	}
	if endpoint.GetWeight() > maxWeight {
		c.invalid(field+".weight", endpoint.GetWeight(), "must be between 0 and %d", maxWeight)
	}
	checkLabels(c, field+".deprecatedTopology", endpoint.GetDeprecatedTopology())
	checkHints(c, field+".hints", endpoint.GetHints())
}

func checkSliceAddress(c *checks, field, address string, family corev1.AddressType, rules Rules) {
	if family == corev1.AddressType_ADDRESS_TYPE_FQDN {
		c.syntax(field, address, DNSSubdomain(strings.TrimSuffix(address, ".")))
		return
	}
	addr, ok := checkEndpointAddress(c, field, address, rules)
	is4, is6 := family == corev1.AddressType_ADDRESS_TYPE_IPV4, family == corev1.AddressType_ADDRESS_TYPE_IPV6
	// An unknown address type has its own violation.
	if ok && (is4 && !addr.Is4() || is6 && addr.Is4()) {
		c.invalid(field, address, "must be an %s address, as addressType says", EnumName(family))
	}
}

func checkHints(c *checks, field string, hints *corev1.EndpointHints) {
	zones := make([]string, len(hints.GetForZones()))
	for i, zone := range hints.GetForZones() {
		zones[i] = zone.GetName()
	}
	nodes := make([]string, len(hints.GetForNodes()))
	for i, node := range hints.GetForNodes() {
		nodes[i] = node.GetName()
	}
	checkHintNames(c, field+".forZones", zones, QualifiedName)
	checkHintNames(c, field+".forNodes", nodes, DNSSubdomain)
}

func checkHintNames(c *checks, field string, names []string, syntax func(string) string) {
	if len(names) > maxHints {
		c.tooMany(field, len(names), maxHints)
		return
	}
	seen := map[string]bool{}
	for i, name := range names {
		c.syntax(indexed(field, i)+".name", name, syntax(name))
		if seen[name] {
			c.duplicate(indexed(field, i)+".name", name)
		}
		seen[name] = true
	}
}
