package model

import (
	"fmt"

	corev1 "portolan.dev/api/core/v1"
)

// Allocations returns the values that must be allocated, by service. Ports with the same number and
// different protocols share a node port.
func (w *World) Allocations() Lines {
	lines := Lines{}
	for _, svc := range Of[*corev1.Service](w) {
		if IsExternalName(svc) {
			continue
		}
		uid := svc.GetMetadata().GetUid()
		for _, ip := range svc.GetSpec().GetClusterIps() {
			if ip != "None" {
				lines.add(svc, "%s", Allocated(ip, uid))
			}
		}
		for _, ingress := range svc.GetStatus().GetLoadBalancer().GetIngress() {
			lines.add(svc, "%s", Allocated(ingress.GetIp(), uid))
		}
		for _, p := range svc.GetSpec().GetPorts() {
			if p.GetNodePort() > 0 {
				lines.add(svc, "%s", Allocated(fmt.Sprint(p.GetNodePort()), uid))
			}
		}
	}
	lines.Compact()
	return lines
}

// Allocated returns the line of a value in Allocations.
func Allocated(value, uid string) string { return fmt.Sprintf("%s of %s", value, uid) }
