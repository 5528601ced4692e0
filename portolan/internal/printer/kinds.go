package printer

import (
	"fmt"
	"strings"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// tables are the columns of each kind.
var tables = map[string][]column{
	"Service": {
		name,
		of("TYPE", func(s *corev1.Service) string { return spec.EnumName(s.GetSpec().GetType()) }),
		of("CLUSTER-IP", func(s *corev1.Service) string { return strings.Join(clusterIPs(s), ",") }),
		of("EXTERNAL-IP", externalAddresses),
		of("PORT(S)", servicePorts),
		age,
		wide(of("SELECTOR", func(s *corev1.Service) string { return Labels(s.GetSpec().GetSelector()) })),
	},
	"Pod": {
		name,
		of("READY", func(p *corev1.Pod) string {
			return conditionStatus(p.GetStatus().GetConditions(), object.ConditionReady)
		}),
		of("STATUS", podState),
		age,
		wide(of("IP", func(p *corev1.Pod) string { return p.GetStatus().GetPodIp() })),
		wide(of("NODE", func(p *corev1.Pod) string { return p.GetSpec().GetNodeName() })),
	},
	"Node": {
		name,
		of("STATUS", nodeState),
		of("PROXY", func(n *corev1.Node) string { return n.GetStatus().GetProxyMode() }),
		age,
		wide(of("ADDRESSES", nodeAddresses)),
		wide(of("AGENT", func(n *corev1.Node) string { return n.GetStatus().GetAgentAddress() })),
		wide(of("VERSION", func(n *corev1.Node) string { return n.GetStatus().GetAgentVersion() })),
	},
	"Namespace": {
		name,
		of("STATUS", func(n *corev1.Namespace) string { return spec.EnumName(n.GetStatus().GetPhase()) }),
		age,
	},
	"Endpoints": {
		name,
		of("ENDPOINTS", func(e *corev1.Endpoints) string { return few(endpointsAddresses(e)) }),
		age,
	},
	"EndpointSlice": {
		name,
		of("ADDRESSTYPE", func(s *corev1.EndpointSlice) string { return spec.EnumName(s.GetAddressType()) }),
		of("PORTS", slicePorts),
		of("ENDPOINTS", func(s *corev1.EndpointSlice) string { return few(sliceAddresses(s)) }),
		age,
	},
	"Lease": {
		name,
		of("HOLDER", func(l *corev1.Lease) string { return l.GetSpec().GetHolderIdentity() }),
		age,
		wide(of("EPOCH", func(l *corev1.Lease) string { return fmt.Sprint(l.GetSpec().GetEpoch()) })),
	},
	"Event": {
		{title: "LAST SEEN", value: func(o object.Object, now time.Time) string {
			event, _ := o.(*corev1.Event)
			return Age(event.GetLastTimestamp().AsTime(), now)
		}},
		of("TYPE", func(e *corev1.Event) string { return spec.EnumName(e.GetType()) }),
		of("REASON", func(e *corev1.Event) string { return e.GetReason() }),
		of("OBJECT", func(e *corev1.Event) string {
			return strings.ToLower(e.GetRegarding().GetKind()) + "/" + e.GetRegarding().GetName()
		}),
		wide(of("COUNT", func(e *corev1.Event) string { return fmt.Sprint(e.GetCount()) })),
		wide(of("FROM", func(e *corev1.Event) string {
			return strings.Trim(e.GetReportingComponent()+", "+e.GetReportingInstance(), ", ")
		})),
		of("MESSAGE", func(e *corev1.Event) string { return e.GetMessage() }),
	},
}

// of makes a column of a function on the kind's own type.
func of[T object.Object](title string, value func(T) string) column {
	return column{title: title, value: func(o object.Object, _ time.Time) string {
		typed, _ := o.(T)
		return value(typed)
	}}
}

func wide(c column) column {
	c.wide = true
	return c
}
