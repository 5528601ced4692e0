package packing

import (
	"fmt"
	"maps"
	"net/netip"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// Problem is a problem of an Endpoints object that is reported to its author.
type Problem struct {
	Reason  string
	Message string
}

// IsMirrored reports whether an Endpoints object is to be turned into slices: it must be written by
// hand, for a service without a selector.
func IsMirrored(svc *corev1.Service, e *corev1.Endpoints) bool {
	if svc == nil || e == nil || UnmanagedReason(svc) != "no selector" || IsManaged(e) {
		return false
	}
	meta := e.GetMetadata()
	_, elected := meta.GetAnnotations()[annotationLeader]
	return !elected && meta.GetLabels()[object.LabelSkipMirror] != "true"
}

// SlicesFromEndpoints returns the wanted slices of an Endpoints object, without the refused
// endpoints.
func SlicesFromEndpoints(e *corev1.Endpoints, refused Refused) (DesiredSlices, []Problem) {
	meta := e.GetMetadata()
	annotations := map[string]string{}
	maps.Copy(annotations, meta.GetAnnotations())
	delete(annotations, AnnotationTrigger)
	delete(annotations, annotationLastApplied)
	w := DesiredSlices{
		Template: Template{
			Namespace: meta.GetNamespace(), GenerateName: meta.GetName() + "-",
			Labels:      sliceLabels(meta.GetLabels(), meta.GetName(), object.ManagedByMirroring, false),
			Annotations: annotations,
			Owner:       ownerReference("Endpoints", meta),
		},
		MaxPerSlice: MaxEndpoints,
	}
	if headless, ok := meta.GetLabels()[object.LabelHeadless]; ok {
		w.Template.Labels[object.LabelHeadless] = headless
	}
	groups := map[groupKey]*Group{}
	var problems []Problem
	for _, s := range e.GetSubsets() {
		problems = append(problems, mirrorSubset(s, groups, refused)...)
	}
	w.Groups = sortedGroups(groups)
	return w, problems
}

func mirrorSubset(s *corev1.EndpointSubset, groups map[groupKey]*Group, refused Refused) (problems []Problem) {
	var ports []*corev1.EndpointPort
	for _, p := range s.GetPorts() {
		name, number := p.GetName(), p.GetPort()
		ports = append(ports, &corev1.EndpointPort{Name: &name, Port: &number, Protocol: protocol(p.GetProtocol()), AppProtocol: p.AppProtocol})
	}
	room, key := MaxEndpoints, portsKey(ports)
	add := func(addresses []*corev1.EndpointAddress, ready bool) {
		for _, a := range addresses {
			ip, err := netip.ParseAddr(a.GetIp())
			if err != nil {
				problems = append(problems, Problem{"InvalidIPAddress", fmt.Sprintf("%q is no IP address; it was left out of the EndpointSlices", a.GetIp())})
				continue
			}
			ep := mirrorAddress(a, ip.Unmap(), ready)
			if _, leftOut := refused[endpointKey(ep)]; leftOut {
				continue
			}
			if room--; room < 0 {
				continue
			}
			g := groupWith(groups, groupKey{addressType(ip.Unmap()), key}, ports)
			g.Endpoints = append(g.Endpoints, ep)
		}
	}
	add(s.GetAddresses(), true)
	add(s.GetNotReadyAddresses(), false)
	if room < 0 {
		problems = append(problems, Problem{"TooManyAddressesToMirror", fmt.Sprintf("a subset has %d addresses more than the %d that are mirrored", -room, MaxEndpoints)})
	}
	return problems
}

func mirrorAddress(a *corev1.EndpointAddress, ip netip.Addr, ready bool) *corev1.Endpoint {
	ep := &corev1.Endpoint{
		Addresses:  []string{ip.String()},
		Conditions: &corev1.EndpointConditions{Ready: &ready},
		TargetRef:  a.GetTargetRef(),
		NodeName:   a.NodeName,
	}
	if a.GetHostname() != "" {
		name := a.GetHostname()
		ep.Hostname = &name
	}
	return ep
}
