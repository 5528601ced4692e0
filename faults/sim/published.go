package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/portolan/e2e/churn/model"
	"portolan.dev/services/object"
)

// addSlice adds the endpoints of a slice to the lines of its service.
func addSlice(lines model.Lines, s *corev1.EndpointSlice) {
	var ports []string
	for _, p := range s.GetPorts() {
		ports = append(ports, fmt.Sprintf("%s:%d/%s", p.GetName(), p.GetPort(), model.Protocol(p.GetProtocol())))
	}
	key := object.ServiceKey(s)
	for _, ep := range s.GetEndpoints() {
		lines[key] = append(lines[key], model.Published(
			ep.GetAddresses()[0], ep.GetConditions().GetReady(), ep.GetTargetRef().GetUid(), ep.GetNodeName(), ports,
		))
	}
}

// addLegacy adds the addresses of an Endpoints to the lines of its service.
func addLegacy(lines model.Lines, e *corev1.Endpoints) {
	key := object.Key{Kind: "Service", Namespace: e.GetMetadata().GetNamespace(), Name: e.GetMetadata().GetName()}
	for _, subset := range e.GetSubsets() {
		for _, a := range subset.GetAddresses() {
			lines[key] = append(lines[key], model.InEndpoints(a.GetIp(), true, a.GetTargetRef().GetUid()))
		}
		for _, a := range subset.GetNotReadyAddresses() {
			lines[key] = append(lines[key], model.InEndpoints(a.GetIp(), false, a.GetTargetRef().GetUid()))
		}
	}
}

// difference lists the missing, unexpected and duplicate lines of got.
func difference(kind string, want, got model.Lines) string {
	keys := maps.Clone(want)
	maps.Copy(keys, got)
	var b strings.Builder
	for _, key := range slices.SortedFunc(maps.Keys(keys), object.Compare) {
		for _, line := range want[key] {
			if !slices.Contains(got[key], line) {
				fmt.Fprintf(&b, "%s of %s: missing %s\n", kind, key, line)
			}
		}
		for i, line := range got[key] {
			if !slices.Contains(want[key], line) {
				fmt.Fprintf(&b, "%s of %s: unexpected %s\n", kind, key, line)
			}
			if slices.Contains(got[key][:i], line) && count(want[key], line) < 2 {
				fmt.Fprintf(&b, "%s of %s: duplicate %s\n", kind, key, line)
			}
		}
	}
	return b.String()
}

func count(lines []string, line string) (n int) {
	for _, l := range lines {
		if l == line {
			n++
		}
	}
	return n
}
