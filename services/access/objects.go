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

// objectRules returns the rules of the roles that may write some objects only. Of the other roles,
// operators may write every object and the rest none.
func objectRules() map[identity.Role]objectRule {
	return map[identity.Role]objectRule{
		identity.NodeAgent: nodeAgent, identity.EndpointCtl: endpointCtl, identity.Allocator: allocator,
	}
}

// WriteLimitOf returns the limit of the caller's role. It returns nil, which means no limit, for
// operators and if there is no TLS.
func WriteLimitOf(ctx context.Context) WriteLimit {
	id, err := identity.Caller(ctx)
	if err != nil || id.Role == identity.Operator {
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

// nodeAgent allows writes to the agent's own Node, to the readiness of the pods on that node, and
// to Events in the agent's name.
func nodeAgent(id identity.ID, updated, old object.Object) string {
	switch o := updated.(type) {
	case *corev1.Node:
		if name := o.GetMetadata().GetName(); name != id.Name {
			return fmt.Sprintf("an agent writes its own Node only; the agent of %s needs a certificate of nodeagent/%s", name, name)
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

// madeByController reports whether the endpoint controller manages a slice.
func madeByController(slice *corev1.EndpointSlice) bool {
	_, _, ok := spec.ControllerLabel(slice)
	return ok
}

// endpointCtl allows writes to the slices that the controller creates, to Endpoints and Leases, to
// the readiness of nodes, and to Events in the controller's name.
func endpointCtl(_ identity.ID, updated, old object.Object) string {
	for _, o := range []object.Object{old, updated} {
		if slice, ok := o.(*corev1.EndpointSlice); ok && !madeByController(slice) {
			return fmt.Sprintf("the controller writes slices whose label %s is its own only", object.LabelManagedBy)
		}
	}
	switch o := updated.(type) {
	case *corev1.Node:
		before, _ := old.(*corev1.Node)
		return onlyConditions(o.GetStatus(), before.GetStatus(), object.ConditionReady)
	case *corev1.Event:
		return checkReporter(o, "endpointctl", "")
	}
	return ""
}

// allocator allows writes to Events in the allocator's name.
func allocator(_ identity.ID, updated, _ object.Object) string {
	event, ok := updated.(*corev1.Event)
	if !ok {
		return "the allocator writes Events only"
	}
	return checkReporter(event, "allocator", "")
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

// onlyConditions returns an error text if a status differs from the one before in more than the
// given conditions, otherwise "".
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
