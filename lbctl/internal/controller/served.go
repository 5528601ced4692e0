package controller

import (
	"crypto/sha256"
	"fmt"

	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// served has the inputs of the last call of a provider for a service, if that call succeeded.
type served struct {
	inputs string // result of inputsOf for the service
	nodes  string // result of digest for the nodes
}

// inputsOf returns a digest of all parts of a service that a load balancer may depend on. It
// includes the addresses in the status, because a provider may make them permanent once they are
// there. It leaves out conditions, because lbctl writes them itself, and each write would lead to a call.
func inputsOf(svc *corev1.Service) string {
	meta := svc.GetMetadata()
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(&corev1.Service{
		Metadata: &corev1.ObjectMeta{
			Namespace: meta.GetNamespace(), Name: meta.GetName(), Uid: meta.GetUid(), Labels: meta.GetLabels(), Annotations: meta.GetAnnotations(),
		},
		Spec:   svc.GetSpec(),
		Status: &corev1.ServiceStatus{LoadBalancer: svc.GetStatus().GetLoadBalancer()},
	})
	if err != nil {
		return fmt.Sprint(meta.GetResourceVersion(), " ", err) // each version counts as a change
	}
	sum := sha256.Sum256(text)
	return string(sum[:])
}

// isSettled reports whether the last call of the provider had the same inputs, and the condition of the service
// says that it succeeded.
func (c *Controller) isSettled(name object.Name, svc *corev1.Service, nodes string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	told, ok := c.served[name]
	return ok && told.inputs == inputsOf(svc) && told.nodes == nodes && saysMade(svc)
}

// saysMade reports whether the condition of a service says that a call of the provider has succeeded. Otherwise
// the next call has to write the condition.
func saysMade(svc *corev1.Service) bool {
	reason := object.Condition(svc.GetStatus().GetConditions(), object.ConditionLoadBalancer).GetReason()
	return reason == reasonEnsured || reason == reasonPortsRefused
}

// onlyNodesDiffer reports whether the last call of the provider had the same inputs with other nodes, and the
// condition of the service says that it succeeded.
func (c *Controller) onlyNodesDiffer(name object.Name, svc *corev1.Service, nodes string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	told, ok := c.served[name]
	return ok && told.inputs == inputsOf(svc) && told.nodes != nodes && saysMade(svc)
}

// beginCall forgets the last call for a service, because a call that fails may have changed the load balancer
// in part.
func (c *Controller) beginCall(name object.Name) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.served, name)
}

// endCall records the inputs of a call that has succeeded.
func (c *Controller) endCall(name object.Name, svc *corev1.Service, nodes string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.served[name] = served{inputs: inputsOf(svc), nodes: nodes}
}
