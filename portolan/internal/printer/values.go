package printer

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
	"portolan.dev/services/terminal"
)

// printf prints to a tabwriter, which keeps its error for Flush. Text of the arguments stays in its
// line and column.
func printf(out *tabwriter.Writer, format string, args ...any) {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = terminal.Line(text)
		}
	}
	_, _ = fmt.Fprintf(out, format, args...)
}

// Labels returns labels in order, in the form of selectors.
func Labels(labels map[string]string) string {
	return strings.Join(pairs(labels), ",")
}

// pairs returns labels in order, each as key=value.
func pairs(labels map[string]string) []string {
	lines := make([]string, 0, len(labels))
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		lines = append(lines, key+"="+labels[key])
	}
	return lines
}

func externalAddresses(s *corev1.Service) string {
	if s.GetSpec().GetType() == corev1.ServiceType_SERVICE_TYPE_EXTERNAL_NAME {
		return s.GetSpec().GetExternalName()
	}
	addresses := slices.Clone(s.GetSpec().GetExternalIps())
	for _, ingress := range s.GetStatus().GetLoadBalancer().GetIngress() {
		addresses = append(addresses, ingress.GetIp()+ingress.GetHostname())
	}
	if len(addresses) == 0 && s.GetSpec().GetType() == corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER {
		return "<pending>"
	}
	return strings.Join(addresses, ",")
}

func servicePorts(s *corev1.Service) string {
	ports := make([]string, 0, len(s.GetSpec().GetPorts()))
	for _, port := range s.GetSpec().GetPorts() {
		text := strconv.Itoa(int(port.GetPort()))
		if port.GetNodePort() != 0 {
			text += ":" + strconv.Itoa(int(port.GetNodePort()))
		}
		ports = append(ports, text+"/"+spec.EnumName(port.GetProtocol()))
	}
	return strings.Join(ports, ",")
}

func slicePorts(s *corev1.EndpointSlice) string {
	ports := make([]string, 0, len(s.GetPorts()))
	for _, port := range s.GetPorts() {
		if port.Port == nil {
			ports = append(ports, "*")
			continue
		}
		ports = append(ports, strconv.Itoa(int(port.GetPort())))
	}
	return strings.Join(ports, ",")
}

func sliceAddresses(s *corev1.EndpointSlice) []string {
	var addresses []string
	for _, endpoint := range s.GetEndpoints() {
		addresses = append(addresses, endpoint.GetAddresses()...)
	}
	return addresses
}

func endpointsAddresses(e *corev1.Endpoints) []string {
	var addresses []string
	for _, subset := range e.GetSubsets() {
		for _, address := range subset.GetAddresses() {
			if len(subset.GetPorts()) == 0 {
				addresses = append(addresses, address.GetIp())
			}
			for _, port := range subset.GetPorts() {
				addresses = append(addresses, net.JoinHostPort(address.GetIp(), strconv.Itoa(int(port.GetPort()))))
			}
		}
	}
	return addresses
}

// shorten shortens a list as kubectl does: three values, and the number of the others.
func shorten(values []string) string {
	if len(values) <= 3 {
		return strings.Join(values, ",")
	}
	return fmt.Sprintf("%s + %d more...", strings.Join(values[:3], ","), len(values)-3)
}

func conditionStatus(conditions []*corev1.Condition, conditionType string) string {
	if condition := object.Condition(conditions, conditionType); condition != nil {
		return spec.EnumName(condition.GetStatus())
	}
	return "Unknown"
}

func podState(p *corev1.Pod) string {
	if p.GetMetadata().GetDeletionTimestamp() != nil {
		return "Terminating"
	}
	return spec.EnumName(p.GetStatus().GetPhase())
}

func nodeState(n *corev1.Node) string {
	state := map[string]string{"True": "Ready", "False": "NotReady"}[conditionStatus(n.GetStatus().GetConditions(), object.ConditionReady)]
	if state == "" {
		state = "Unknown"
	}
	if n.GetSpec().GetUnschedulable() {
		state += ",SchedulingDisabled"
	}
	return state
}

func nodeAddresses(n *corev1.Node) string {
	var addresses []string
	for _, address := range n.GetStatus().GetAddresses() {
		addresses = append(addresses, address.GetAddress())
	}
	return strings.Join(addresses, ",")
}
