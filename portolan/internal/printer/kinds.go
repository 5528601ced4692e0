package printer

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/portolan/internal/balancer"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// kindLayout is the way in which objects of one kind are printed.
type kindLayout struct {
	columns []column // default: name and age
	// describe prints the lines of a description between the metadata and the events. Without it, a
	// description has no such lines.
	describe func(d description, o object.Object, related Related)
}

// layoutOf returns the layout of a kind.
func layoutOf(kind string) kindLayout {
	layout := layouts[kind]
	if layout.columns == nil {
		layout.columns = []column{name, age}
	}
	if layout.describe == nil {
		layout.describe = func(description, object.Object, Related) {}
	}
	return layout
}

// layouts are the layouts of the kinds that have one of their own.
var layouts = map[string]kindLayout{
	"Service": {columns: []column{
		name,
		columnOf("TYPE", func(s *corev1.Service) string { return spec.EnumName(s.GetSpec().GetType()) }),
		columnOf("CLUSTER-IP", func(s *corev1.Service) string { return strings.Join(object.ClusterIPs(s), ",") }),
		columnOf("EXTERNAL-IP", externalAddresses),
		columnOf("PORT(S)", servicePorts),
		age,
		wide(columnOf("SELECTOR", func(s *corev1.Service) string { return Labels(s.GetSpec().GetSelector()) })),
		wide(columnOfBalancer("LB-PROVIDER", func(s balancer.State, _ time.Time) string { return s.Provider })),
		wide(columnOfBalancer("LB-POOL", func(s balancer.State, _ time.Time) string { return strings.Join(s.PoolNames(), ",") })),
		wide(columnOfBalancer("ANNOUNCED-BY", announcedBy)),
		wide(columnOfBalancer("LB-STATE", func(s balancer.State, _ time.Time) string { return s.Summary() })),
	}, describe: describer(describeService)},
	"Pod": {columns: []column{
		name,
		columnOf("READY", func(p *corev1.Pod) string {
			return conditionStatus(p.GetStatus().GetConditions(), object.ConditionReady)
		}),
		columnOf("STATUS", podState),
		age,
		wide(columnOf("IP", func(p *corev1.Pod) string { return p.GetStatus().GetPodIp() })),
		wide(columnOf("NODE", func(p *corev1.Pod) string { return p.GetSpec().GetNodeName() })),
	}, describe: describer(func(d description, p *corev1.Pod, _ Related) { describePod(d, p) })},
	"Node": {columns: []column{
		name,
		columnOf("STATUS", nodeState),
		columnOf("PROXY", func(n *corev1.Node) string { return n.GetStatus().GetProxyMode() }),
		age,
		wide(columnOf("ADDRESSES", nodeAddresses)),
		wide(columnOf("AGENT", func(n *corev1.Node) string { return n.GetStatus().GetAgentAddress() })),
		wide(columnOf("VERSION", func(n *corev1.Node) string { return n.GetStatus().GetAgentVersion() })),
	}, describe: describer(func(d description, n *corev1.Node, _ Related) { describeNode(d, n) })},
	"Namespace": {columns: []column{
		name,
		columnOf("STATUS", func(n *corev1.Namespace) string { return spec.EnumName(n.GetStatus().GetPhase()) }),
		age,
	}},
	"Endpoints": {columns: []column{
		name,
		columnOf("ENDPOINTS", func(e *corev1.Endpoints) string { return shorten(endpointsAddresses(e)) }),
		age,
	}, describe: describer(func(d description, e *corev1.Endpoints, _ Related) { d.lines("Endpoints", endpointsAddresses(e)) })},
	"EndpointSlice": {columns: []column{
		name,
		columnOf("ADDRESSTYPE", func(s *corev1.EndpointSlice) string { return spec.EnumName(s.GetAddressType()) }),
		columnOf("PORTS", slicePorts),
		columnOf("ENDPOINTS", func(s *corev1.EndpointSlice) string { return shorten(sliceAddresses(s)) }),
		age,
	}, describe: describer(func(d description, s *corev1.EndpointSlice, _ Related) { describeSlice(d, s) })},
	"Lease": {columns: []column{
		name,
		columnOf("HOLDER", func(l *corev1.Lease) string { return l.GetSpec().GetHolderIdentity() }),
		age,
		wide(columnOf("EPOCH", func(l *corev1.Lease) string { return fmt.Sprint(l.GetSpec().GetEpoch()) })),
	}, describe: describer(describeLease)},
	"Event": {columns: []column{
		{title: "LAST SEEN", value: func(o object.Object, options Options) string {
			event, _ := o.(*corev1.Event)
			return Age(event.GetLastTimestamp().AsTime(), options.Now)
		}},
		columnOf("TYPE", func(e *corev1.Event) string { return spec.EnumName(e.GetType()) }),
		columnOf("REASON", func(e *corev1.Event) string { return e.GetReason() }),
		columnOf("OBJECT", func(e *corev1.Event) string {
			return strings.ToLower(e.GetRegarding().GetKind()) + "/" + e.GetRegarding().GetName()
		}),
		wide(columnOf("COUNT", func(e *corev1.Event) string { return fmt.Sprint(e.GetCount()) })),
		wide(columnOf("FROM", func(e *corev1.Event) string {
			return strings.Trim(e.GetReportingComponent()+", "+e.GetReportingInstance(), ", ")
		})),
		columnOf("MESSAGE", func(e *corev1.Event) string { return e.GetMessage() }),
	}},
	"Secret": {columns: secretColumns(), describe: describer(describeSecret)},
	"Revocation": {columns: []column{
		name,
		columnOf("DENIES", spec.Denies),
		columnOf("ISSUED UNTIL", func(r *corev1.Revocation) string { return moment(r.GetSpec().GetIssuedBefore()) }),
		columnOf("FORGOTTEN", func(r *corev1.Revocation) string { return moment(r.GetSpec().GetExpires()) }),
		age,
		columnOf("REASON", func(r *corev1.Revocation) string { return r.GetSpec().GetReason() }),
	}},
	"Token": {columns: []column{
		name,
		columnOf("IDENTITY", func(t *corev1.Token) string { return t.GetSpec().GetIdentity() }),
		columnOf("EXPIRES", func(t *corev1.Token) string { return moment(t.GetSpec().GetExpires()) }),
		columnOf("CREATED-BY", func(t *corev1.Token) string { return t.GetSpec().GetCreatedBy() }),
		age,
	}},
}

// columnOf makes a column of a function on the kind's own type.
func columnOf[T object.Object](title string, value func(T) string) column {
	return column{title: title, value: func(o object.Object, _ Options) string {
		typed, _ := o.(T)
		return value(typed)
	}}
}

// columnOfBalancer makes a column about the load balancers of services. It is empty for other services.
func columnOfBalancer(title string, value func(s balancer.State, now time.Time) string) column {
	return column{title: title, value: func(o object.Object, options Options) string {
		svc, ok := o.(*corev1.Service)
		if !ok || !spec.IsLoadBalancer(svc) {
			return ""
		}
		return value(balancer.Of(svc, options.Pools), options.Now)
	}}
}

// announcedBy returns the nodes that announce the addresses of a load balancer, and since when.
func announcedBy(s balancer.State, now time.Time) string {
	nodes := strings.Join(s.Nodes(), ",")
	if nodes == "" || s.AnnouncedSince.IsZero() {
		return nodes
	}
	return nodes + " (" + Age(s.AnnouncedSince, now) + ")"
}

// describer makes the describe function of a layout of a function on the kind's own type.
func describer[T object.Object](describe func(d description, o T, related Related)) func(description, object.Object, Related) {
	return func(d description, o object.Object, related Related) { describe(d, o.(T), related) }
}

// moment returns a time as text. It is empty for a field that is not set.
func moment(at *timestamppb.Timestamp) string {
	if at == nil {
		return ""
	}
	return at.AsTime().Format(time.RFC3339)
}

func wide(c column) column {
	c.wide = true
	return c
}
