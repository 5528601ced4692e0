package model

import (
	"fmt"
	"slices"
	"strings"

	corev1 "portolan.dev/api/core/v1"
)

// Slices returns the endpoints that the controller must publish for each service with a selector.
func (w *World) Slices() Lines {
	lines := Lines{}
	for _, svc := range Of[*corev1.Service](w) {
		if len(svc.GetSpec().GetSelector()) == 0 || IsExternalName(svc) {
			continue
		}
		for _, e := range w.endpoints(svc) {
			var ports []string
			for _, p := range e.ports {
				ports = append(ports, p.String())
			}
			lines.add(svc, "%s", Published(e.address.String(), e.ready, e.pod.GetMetadata().GetUid(), e.node, ports))
		}
	}
	return lines
}

// Published returns the line of an endpoint in Slices.
func Published(address string, ready bool, pod, node string, ports []string) string {
	slices.Sort(ports)
	return fmt.Sprintf("%s ready=%v pod %s on %q ports %s", address, ready, pod, node, strings.Join(ports, ","))
}

// Legacy returns the addresses that the Endpoints of each service with a selector must have: the
// addresses of its first family.
func (w *World) Legacy() Lines {
	lines := Lines{}
	for _, svc := range Of[*corev1.Service](w) {
		if len(svc.GetSpec().GetSelector()) == 0 || IsExternalName(svc) {
			continue
		}
		for _, e := range w.endpoints(svc) {
			if familyOf(e.address) == svc.GetSpec().GetIpFamilies()[0] {
				lines.add(svc, "%s", InEndpoints(e.address.String(), e.ready, e.pod.GetMetadata().GetUid()))
			}
		}
	}
	return lines
}

// InEndpoints returns the line of an address in Legacy.
func InEndpoints(address string, ready bool, pod string) string {
	return fmt.Sprintf("%s ready=%v pod %s", address, ready, pod)
}
