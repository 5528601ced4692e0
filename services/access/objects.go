package access

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// WriteLimit returns an error if a write is not allowed. updated is nil if the object is deleted;
// old is the stored object that the write replaces, and nil if the object is created.
type WriteLimit func(updated, old object.Object) error

// objectRule returns the reason why an identity may not make a write, or "" if it may.
type objectRule func(id identity.ID, updated, old object.Object) string

// objectRules returns the rules of the roles that may write some objects only. Operators of all
// namespaces may write every object. Roles without a rule may write none.
func objectRules() map[identity.Role]objectRule {
	return map[identity.Role]objectRule{
		identity.NodeAgent: nodeAgent, identity.EndpointCtl: endpointCtl, identity.Allocator: allocator, identity.LBCtl: lbCtl,
		identity.Edge: edge, identity.Workload: ownPods, identity.Registrar: registrar, identity.Operator: boundOperator,
	}
}

// WriteLimitOf returns the limit of the caller's role. It returns nil, which means no limit, for
// operators of all namespaces and if there is no TLS.
func WriteLimitOf(ctx context.Context) WriteLimit {
	id, err := identity.Caller(ctx)
	if err != nil || id.Role == identity.Operator && id.Namespace == "" {
		return nil
	}
	rule := objectRules()[id.Role]
	return func(updated, old object.Object) error {
		reason := "this role writes nothing"
		if rule != nil {
			reason = rule(id, updated, old)
		}
		if reason == "" {
			return nil
		}
		o := old
		if o == nil {
			o = updated
		}
		key := object.KeyOf(o)
		return apierr.PermissionDenied(fmt.Sprintf("role %s (%s) may not write this %s %q: %s", id.Role, id, key.Kind, key.Path(), reason))
	}
}

// IsOperator reports whether the caller is an operator, of all namespaces or of one. It is false if
// there is no TLS.
func IsOperator(ctx context.Context) bool {
	id, err := identity.Caller(ctx)
	return err == nil && id.Role == identity.Operator
}

// MayNameOwners reports whether the caller's writes may name the owners of an object's fields. Owners decide
// which fields a later apply removes. Operators and workloads may name them, and every caller if there is no
// TLS. Controllers and agents write a part of an object, so the registry keeps the owners for them.
func MayNameOwners(ctx context.Context) bool {
	id, err := identity.Caller(ctx)
	return err != nil || id.Role == identity.Operator || id.Role == identity.Workload
}

// nodeAgent allows writes to the agent's own Node, to the readiness of the pods on that node, and to
// Events in the agent's name. It refuses a new Node with pod ranges.
func nodeAgent(id identity.ID, updated, old object.Object) string {
	switch o := updated.(type) {
	case *corev1.Node:
		if name := o.GetMetadata().GetName(); name != id.Name {
			return fmt.Sprintf("an agent writes its own Node only; the agent of %s needs a certificate of nodeagent/%s", name, name)
		}
		if ranges := o.GetSpec().GetPodCidrs(); old == nil && (len(ranges) > 0 || o.GetSpec().GetPodCidr() != "") {
			return "the pod ranges of a Node are the operator's to set"
		}
		return ""
	case *corev1.Pod:
		before, ok := old.(*corev1.Pod)
		if !ok || before.GetSpec().GetNodeName() != id.Name {
			return fmt.Sprintf("the pod is on node %q, and an agent writes pods of its own node only", before.GetSpec().GetNodeName())
		}
		return onlyConditions(o.GetStatus(), before.GetStatus(), object.ConditionReady, "ContainersReady")
	case *corev1.Event:
		return checkReporter(o, "nodeagent", id.Name)
	}
	return "an agent writes its Node, the readiness of its pods and Events only"
}

// endpointCtl allows writes to the slices and Endpoints that have the controller's label before and
// after the write, to the Leases of the controller, to the readiness of nodes, and to Events in the
// controller's name.
func endpointCtl(_ identity.ID, updated, old object.Object) string {
	for _, o := range []object.Object{old, updated} {
		if reason := notControllers(o); reason != "" {
			return reason
		}
	}
	switch o := updated.(type) {
	case nil, *corev1.EndpointSlice, *corev1.Endpoints, *corev1.Lease:
		return "" // checked by notControllers
	case *corev1.Node:
		before, _ := old.(*corev1.Node)
		return onlyConditions(o.GetStatus(), before.GetStatus(), object.ConditionReady)
	case *corev1.Event:
		return checkReporter(o, "endpointctl", "")
	}
	return "the controller writes slices, Endpoints, its Lease, the readiness of nodes and Events only"
}

// notControllers returns the reason why the endpoint controller does not own an object. It returns
// "" if the controller owns the object, and for kinds that controllers do not own.
func notControllers(o object.Object) string {
	switch o := o.(type) {
	case *corev1.EndpointSlice, *corev1.Endpoints:
		if key, _, own := spec.ControllerLabel(o); !own {
			return fmt.Sprintf("the controller writes objects whose label %s is its own only", key)
		}
	case *corev1.Lease:
		if !spec.IsControllerLease(o) {
			return fmt.Sprintf("the controller's Leases are %s/%s, and those whose name begins with %[2]s-", object.DefaultNamespace, spec.ControllerLease)
		}
	}
	return ""
}

// allocator allows writes to Events in the allocator's name, and the deletion of the Leases that
// fence the values which registries have reserved.
func allocator(_ identity.ID, updated, old object.Object) string {
	if event, ok := updated.(*corev1.Event); ok {
		return checkReporter(event, "allocator", "")
	}
	if lease, ok := old.(*corev1.Lease); ok && updated == nil {
		if spec.IsReserveLease(lease) {
			return ""
		}
		return fmt.Sprintf("the allocator deletes the Leases %s/%s… of registries only", object.DefaultNamespace, spec.ReserveLeasePrefix)
	}
	return "the allocator writes Events, and deletes Leases of registries, only"
}

// lbCtl allows the controller of load balancers to change these parts of a service: the addresses of
// its load balancer, the conditions about them, the controller's finalizer, and the annotation that
// names the provider. It also allows the controller's Leases and Events in its name.
func lbCtl(_ identity.ID, updated, old object.Object) string {
	switch o := updated.(type) {
	case *corev1.Service:
		before, ok := old.(*corev1.Service)
		if !ok {
			return "the controller of load balancers creates no services"
		}
		if !proto.Equal(withoutBalancer(o), withoutBalancer(before)) {
			return fmt.Sprintf("of a service, only status.loadBalancer, the conditions %q, the finalizer %s and the annotation %s are this role's to change",
				spec.BalancerConditions(), object.FinalizerLoadBalancer, object.AnnotationBalancerProvider)
		}
		return ""
	case *corev1.Lease:
		before, _ := old.(*corev1.Lease)
		if spec.IsBalancerLease(o) && (before == nil || spec.IsBalancerLease(before)) {
			return ""
		}
		return fmt.Sprintf("the Leases of the controller of load balancers are %s/%s, and those whose name begins with %[2]s-", object.DefaultNamespace, spec.BalancerLease)
	case *corev1.Event:
		return checkReporter(o, "lbctl", "")
	}
	return "the controller of load balancers writes the state of services, its Lease and Events only"
}

// withoutBalancer returns a copy of a service without the parts that lbCtl allows to change, and
// without the metadata that the registry changes in the same write.
func withoutBalancer(svc *corev1.Service) *corev1.Service {
	out := svc.CloneVT()
	if out.Metadata == nil {
		out.Metadata = &corev1.ObjectMeta{}
	}
	meta := out.Metadata
	meta.ResourceVersion, meta.Generation = 0, 0
	meta.ManagedFields = nil // the registry sets them for this role; see MayNameOwners
	meta.Finalizers = slices.DeleteFunc(meta.Finalizers, func(f string) bool { return f == object.FinalizerLoadBalancer })
	delete(meta.Annotations, object.AnnotationBalancerProvider)
	out.Status, _ = withoutConditions(svc.GetStatus(), spec.BalancerConditions()).(*corev1.ServiceStatus)
	out.Status.LoadBalancer = nil
	return out
}

// edge allows Events in the edge's name.
func edge(id identity.ID, updated, _ object.Object) string {
	if event, ok := updated.(*corev1.Event); ok {
		return checkReporter(event, "edge", id.Name)
	}
	return "an edge writes Events only"
}

// checkReporter returns an error text if an Event is not in the writer's own name, otherwise "".
func checkReporter(event *corev1.Event, component, instance string) string {
	if event.GetReportingComponent() == component && (instance == "" || event.GetReportingInstance() == instance) {
		return ""
	}
	return fmt.Sprintf("an Event must be in the writer's own name: reporting_component %q, reporting_instance %q", component, instance)
}

// status is a status with conditions.
type status interface {
	proto.Message
	GetConditions() []*corev1.Condition
}

// onlyConditions returns an error text if a write changes more of a status than the given conditions,
// otherwise "".
func onlyConditions[S status](updated, before S, types ...string) string {
	if proto.Equal(withoutConditions(updated, types), withoutConditions(before, types)) {
		return ""
	}
	return fmt.Sprintf("of the status, only the conditions %q are this role's to change", types)
}

// withoutConditions returns a status without the given conditions. It never returns nil.
func withoutConditions[S status](s S, types []string) proto.Message {
	m := s.ProtoReflect()
	if !m.IsValid() {
		return m.New().Interface()
	}
	out := proto.Clone(s)
	field := m.Descriptor().Fields().ByName("conditions")
	out.ProtoReflect().Clear(field)
	for _, c := range s.GetConditions() {
		if !slices.Contains(types, c.GetType()) {
			out.ProtoReflect().Mutable(field).List().Append(protoreflect.ValueOfMessage(c.ProtoReflect()))
		}
	}
	return out
}
