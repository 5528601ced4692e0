package printer

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/portolan/internal/balancer"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// Related holds the other objects and facts that a description shows.
type Related struct {
	Slices []*corev1.EndpointSlice // of a service
	// Nodes are the nodes on which a service is programmed, and the obstacles on the others.
	Nodes  []string
	Events []*corev1.Event
	// Pools are the pools of load-balancer addresses.
	Pools balancer.Pools
	Now   time.Time
}

// description collects lines of "Name: value".
type description struct{ out *tabwriter.Writer }

func (d description) line(name, format string, args ...any) {
	printf(d.out, "%s:\t%s\n", name, orDash(fmt.Sprintf(format, args...)))
}

// lines prints a list under one name.
func (d description) lines(name string, values []string) {
	if len(values) == 0 {
		d.line(name, "")
		return
	}
	for i, value := range values {
		if i > 0 {
			name = ""
		} else {
			name += ":"
		}
		printf(d.out, "%s\t%s\n", name, value)
	}
}

// Describe prints an object in words.
func Describe(w io.Writer, o object.Object, related Related) error {
	d := description{out: tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)}
	describeMeta(d, o.GetMetadata(), related.Now)
	layoutOf(object.KindOf(o)).describe(d, o, related)
	if len(related.Nodes) > 0 {
		d.lines("Nodes", related.Nodes)
	}
	describeEvents(d, related.Events, related.Now)
	return d.out.Flush()
}

func describeMeta(d description, meta *corev1.ObjectMeta, now time.Time) {
	d.line("Name", "%s", meta.GetName())
	if meta.GetNamespace() != "" {
		d.line("Namespace", "%s", meta.GetNamespace())
	}
	d.lines("Labels", pairs(meta.GetLabels()))
	d.lines("Annotations", pairs(meta.GetAnnotations()))
	d.line("Age", "%s", Age(meta.GetCreationTimestamp().AsTime(), now))
	if meta.GetDeletionTimestamp() != nil {
		ends, grace := meta.GetDeletionTimestamp().AsTime(), time.Duration(meta.GetDeletionGracePeriodSeconds())*time.Second
		d.line("Terminating since", "%s", Age(ends.Add(-grace), now))
		if ends.After(now) {
			d.line("Ends in", "%s at the latest", Age(now, ends))
		}
		d.lines("Waits for", meta.GetFinalizers())
	}
}

func describeService(d description, s *corev1.Service, related Related) {
	d.lines("Selector", pairs(s.GetSpec().GetSelector()))
	d.line("Type", "%s", spec.EnumName(s.GetSpec().GetType()))
	if s.GetSpec().GetType() == corev1.ServiceType_SERVICE_TYPE_EXTERNAL_NAME {
		d.line("External name", "%s", s.GetSpec().GetExternalName())
		return
	}
	d.line("IPs", "%s", strings.Join(object.ClusterIPs(s), ","))
	if external := externalAddresses(s); external != "" {
		d.line("External addresses", "%s", external)
	}
	if spec.IsLoadBalancer(s) {
		d.lines("Load balancer", balancer.Of(s, related.Pools).Sentences(func(at time.Time) string { return Age(at, related.Now) }))
	}
	for _, port := range s.GetSpec().GetPorts() {
		describePort(d, port, related.Slices)
	}
	d.line("Session affinity", "%s", spec.EnumName(s.GetSpec().GetSessionAffinity()))
	if policy := s.GetSpec().GetExternalTrafficPolicy(); policy != 0 {
		d.line("External traffic policy", "%s", spec.EnumName(policy))
	}
	if policy := s.GetSpec().GetInternalTrafficPolicy(); policy != 0 {
		d.line("Internal traffic policy", "%s", spec.EnumName(policy))
	}
	if port := s.GetSpec().GetHealthCheckNodePort(); port != 0 {
		d.line("Health check node port", "%d", port)
	}
}

func describePort(d description, port *corev1.ServicePort, endpointSlices []*corev1.EndpointSlice) {
	protocol := spec.EnumName(port.GetProtocol())
	target := port.GetTargetPort().GetName()
	if target == "" {
		target = strconv.Itoa(int(port.GetTargetPort().GetNumber()))
	}
	d.line("Port", "%s  %d/%s -> %s", orDash(port.GetName()), port.GetPort(), protocol, target)
	if port.GetNodePort() != 0 {
		d.line("Node port", "%s  %d/%s", orDash(port.GetName()), port.GetNodePort(), protocol)
	}
	d.line("Endpoints", "%s", shorten(endpointsOf(port, endpointSlices)))
}

// endpointsOf returns the ready endpoints of one port. Slices name the port by the service port's
// name.
func endpointsOf(port *corev1.ServicePort, endpointSlices []*corev1.EndpointSlice) []string {
	var found []string
	for _, slice := range endpointSlices {
		for _, p := range slice.GetPorts() {
			if p.GetName() != port.GetName() || p.GetProtocol() != port.GetProtocol() {
				continue
			}
			for _, endpoint := range slice.GetEndpoints() {
				if !object.IsReadyEndpoint(endpoint) {
					continue
				}
				for _, address := range endpoint.GetAddresses() {
					found = append(found, net.JoinHostPort(address, strconv.Itoa(int(p.GetPort()))))
				}
			}
		}
	}
	slices.Sort(found)
	return found
}

func describePod(d description, p *corev1.Pod) {
	d.line("Node", "%s", p.GetSpec().GetNodeName())
	d.line("Status", "%s", podState(p))
	d.line("IPs", "%s", strings.Join(p.GetStatus().GetPodIps(), ","))
	for _, container := range p.GetSpec().GetContainers() {
		d.line("Container", "%s", container.GetName())
		for _, port := range container.GetPorts() {
			d.line("Port", "%s  %d/%s", orDash(port.GetName()), port.GetContainerPort(), spec.EnumName(port.GetProtocol()))
		}
	}
	describeConditions(d, p.GetStatus().GetConditions())
}

func describeNode(d description, n *corev1.Node) {
	d.line("Addresses", "%s", nodeAddresses(n))
	d.line("Pod ranges", "%s", strings.Join(n.GetSpec().GetPodCidrs(), ","))
	d.line("Proxy mode", "%s", n.GetStatus().GetProxyMode())
	d.line("Agent", "%s %s", n.GetStatus().GetAgentAddress(), n.GetStatus().GetAgentVersion())
	d.line("Kernel", "%s", n.GetStatus().GetKernelVersion())
	describeConditions(d, n.GetStatus().GetConditions())
}

func describeSlice(d description, s *corev1.EndpointSlice) {
	d.line("Address type", "%s", spec.EnumName(s.GetAddressType()))
	for _, port := range s.GetPorts() {
		d.line("Port", "%s  %d/%s", orDash(port.GetName()), port.GetPort(), spec.EnumName(port.GetProtocol()))
	}
	for _, endpoint := range s.GetEndpoints() {
		d.line("Endpoint", "%s  ready=%v  node=%s  %s", strings.Join(endpoint.GetAddresses(), ","), object.IsReadyEndpoint(endpoint), orDash(endpoint.GetNodeName()),
			strings.Trim(endpoint.GetTargetRef().GetKind()+"/"+endpoint.GetTargetRef().GetName(), "/"))
	}
}

func describeLease(d description, l *corev1.Lease, related Related) {
	d.line("Holder", "%s", l.GetSpec().GetHolderIdentity())
	d.line("Renewed", "%s", Age(l.GetSpec().GetRenewTime().AsTime(), related.Now))
	d.line("Epoch", "%d", l.GetSpec().GetEpoch())
	if shards := l.GetSpec().GetShards(); shards > 0 {
		d.line("Shards", "%d", shards)
	}
}

func describeConditions(d description, conditions []*corev1.Condition) {
	for _, condition := range conditions {
		why := strings.Trim(condition.GetReason()+": "+condition.GetMessage(), ": ")
		d.line("Condition", "%s=%s  %s", condition.GetType(), spec.EnumName(condition.GetStatus()), why)
	}
}

func describeEvents(d description, events []*corev1.Event, now time.Time) {
	if len(events) == 0 {
		d.line("Events", "")
		return
	}
	_, _ = fmt.Fprintln(d.out, "Events:")
	for _, event := range events {
		printf(d.out, "  %s\t%s  %s (%dx, %s)  %s\n", Age(event.GetLastTimestamp().AsTime(), now), spec.EnumName(event.GetType()),
			event.GetReason(), max(event.GetCount(), 1), event.GetReportingComponent(), event.GetMessage())
	}
}
