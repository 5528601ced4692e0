package kinds

import (
	"strconv"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/spec"
)

// All lists all kinds in the order in which objects of several kinds should be applied: a kind
// comes after the kinds that it refers to.
var All = []*Kind{
	row[*corev1.Namespace]{
		short:  []string{"ns"},
		access: Access{Create: {identity.Registrar}, Get: {identity.Registrar}},
		fields: map[string]func(*corev1.Namespace) string{
			"status.phase": func(n *corev1.Namespace) string { return spec.EnumName(n.GetStatus().GetPhase()) },
		},
		fill: spec.DefaultNamespace, name: spec.DNSLabel, validate: spec.ValidateNamespace, validateStatus: spec.ValidateNamespaceStatus,
	}.kind(),
	row[*corev1.Node]{
		short: []string{"no"}, lasting: true, // the certificates of its agent would be revoked
		access: Access{
			Create: {identity.NodeAgent}, Get: {identity.NodeAgent, identity.Registrar}, UpdateStatus: {identity.NodeAgent, identity.EndpointCtl},
		},
		maxBytes: smallMaxBytes,
		fields: map[string]func(*corev1.Node) string{
			"spec.unschedulable": func(n *corev1.Node) string { return strconv.FormatBool(n.GetSpec().GetUnschedulable()) },
		},
		fill: spec.DefaultNode, validate: spec.ValidateNode, validateUpdate: spec.ValidateNodeUpdate, validateStatus: spec.ValidateNodeStatus,
	}.kind(),
	row[*corev1.Secret]{
		namespaced: true, private: true,
		maxBytes: secretMaxBytes,
		fields: map[string]func(*corev1.Secret) string{
			"type": func(s *corev1.Secret) string { return s.GetType() },
		},
		fill: spec.DefaultSecret, validate: spec.ValidateSecret, validateUpdate: spec.ValidateSecretUpdate,
	}.kind(),
	row[*corev1.Service]{
		short: []string{"svc"}, namespaced: true,
		access: Access{
			Create: {identity.Registrar}, Get: {identity.Allocator, identity.LBCtl, identity.Registrar}, List: {identity.Allocator},
			Update: {identity.LBCtl}, UpdateStatus: {identity.LBCtl},
		},
		fields: map[string]func(*corev1.Service) string{
			"spec.type":      func(s *corev1.Service) string { return spec.EnumName(s.GetSpec().GetType()) },
			"spec.clusterIP": func(s *corev1.Service) string { return s.GetSpec().GetClusterIp() },
		},
		fill: spec.DefaultService, prepareCreate: spec.PrepareServiceCreate, prepareUpdate: spec.PrepareServiceUpdate,
		name: spec.RFC1035Label, oldNames: true, validate: spec.ValidateService, validateUpdate: spec.ValidateServiceUpdate,
		validateStatus: spec.ValidateServiceStatus, warnings: spec.ServiceWarnings,
	}.kind(),
	row[*corev1.Pod]{
		short: []string{"po"}, namespaced: true,
		access: Access{
			Create: {identity.Workload, identity.Registrar},
			Get:    {identity.Allocator, identity.NodeAgent, identity.Workload, identity.Registrar},
			List:   {identity.Workload, identity.Registrar}, Watch: {identity.Workload, identity.Registrar},
			Update: {identity.Workload, identity.Registrar}, UpdateStatus: {identity.NodeAgent, identity.Workload, identity.Registrar},
			Delete: {identity.Workload, identity.Registrar},
		},
		fields: map[string]func(*corev1.Pod) string{
			"spec.nodeName": func(p *corev1.Pod) string { return p.GetSpec().GetNodeName() },
			"status.phase":  func(p *corev1.Pod) string { return spec.EnumName(p.GetStatus().GetPhase()) },
			"status.podIP":  func(p *corev1.Pod) string { return p.GetStatus().GetPodIp() },
		},
		maxBytes: podMaxBytes,
		fill:     spec.DefaultPod, validate: spec.ValidatePod, validateUpdate: spec.ValidatePodUpdate, validateStatus: spec.ValidatePodStatus,
	}.kind(),
	row[*corev1.Endpoints]{
		plural: "endpoints", short: []string{"ep"}, namespaced: true,
		access:    Access{Create: {identity.EndpointCtl}, Update: {identity.EndpointCtl}, Delete: {identity.EndpointCtl}},
		maxLabels: spec.MaxEndpointsLabels,
		fill:      spec.DefaultEndpoints, validate: spec.ValidateEndpoints, warnings: spec.EndpointsWarnings,
	}.kind(),
	row[*corev1.EndpointSlice]{
		short: []string{"eps"}, namespaced: true,
		access:   Access{Create: {identity.EndpointCtl}, Update: {identity.EndpointCtl}, Delete: {identity.EndpointCtl}},
		maxBytes: sliceMaxBytes, maxLabels: spec.MaxSliceLabels,
		fill: spec.DefaultEndpointSlice, validate: spec.ValidateEndpointSlice, validateUpdate: spec.ValidateEndpointSliceUpdate,
	}.kind(),
	row[*corev1.Lease]{
		namespaced: true, lasting: true, // another leader would be elected
		access: Access{
			Create: {identity.EndpointCtl, identity.LBCtl}, Get: {identity.Allocator, identity.EndpointCtl, identity.LBCtl},
			Update: {identity.EndpointCtl, identity.LBCtl}, Delete: {identity.Allocator},
		},
		fields: map[string]func(*corev1.Lease) string{
			"spec.holderIdentity": func(l *corev1.Lease) string { return l.GetSpec().GetHolderIdentity() },
		},
		fill: spec.DefaultLease, validate: spec.ValidateLease,
	}.kind(),
	row[*corev1.Event]{
		short: []string{"ev"}, namespaced: true, lasting: true, // the registry deletes it by its age
		access:   Access{Create: {identity.Allocator, identity.EndpointCtl, identity.LBCtl, identity.NodeAgent, identity.Edge, identity.Registrar}},
		maxBytes: smallMaxBytes,
		fields:   eventFields(),
		fill:     spec.DefaultEvent, validate: spec.ValidateEvent,
	}.kind(),
	row[*corev1.Revocation]{
		own: true, lasting: true, // the certificates would be valid again
		maxBytes: smallMaxBytes,
		fields: map[string]func(*corev1.Revocation) string{
			"spec.identity": func(r *corev1.Revocation) string { return r.GetSpec().GetIdentity() },
			"spec.serial":   func(r *corev1.Revocation) string { return r.GetSpec().GetSerial() },
		},
		fill: spec.DefaultRevocation, validate: spec.ValidateRevocation, validateUpdate: spec.ValidateRevocationUpdate,
	}.kind(),
	row[*corev1.Token]{
		own: true, private: true,
		maxBytes: smallMaxBytes,
		fields: map[string]func(*corev1.Token) string{
			"spec.identity": func(t *corev1.Token) string { return t.GetSpec().GetIdentity() },
		},
		fill: spec.DefaultToken, validate: spec.ValidateToken, validateUpdate: spec.ValidateTokenUpdate,
	}.kind(),
}

// eventFields returns the fields of events to select by, as in Kubernetes. The fields of an event's object
// and its reporter have their current and their older name.
func eventFields() map[string]func(*corev1.Event) string {
	fields := map[string]func(*corev1.Event) string{
		"reason": func(e *corev1.Event) string { return e.GetReason() },
		"type":   func(e *corev1.Event) string { return spec.EnumName(e.GetType()) },
	}
	for _, name := range []string{"reportingComponent", "reportingController", "source"} {
		fields[name] = func(e *corev1.Event) string { return e.GetReportingComponent() }
	}
	for _, prefix := range []string{"regarding", "involvedObject"} {
		fields[prefix+".kind"] = func(e *corev1.Event) string { return e.GetRegarding().GetKind() }
		fields[prefix+".namespace"] = func(e *corev1.Event) string { return e.GetRegarding().GetNamespace() }
		fields[prefix+".name"] = func(e *corev1.Event) string { return e.GetRegarding().GetName() }
		fields[prefix+".uid"] = func(e *corev1.Event) string { return e.GetRegarding().GetUid() }
		fields[prefix+".apiVersion"] = func(e *corev1.Event) string { return e.GetRegarding().GetApiVersion() }
		fields[prefix+".fieldPath"] = func(e *corev1.Event) string { return e.GetRegarding().GetFieldPath() }
	}
	return fields
}
