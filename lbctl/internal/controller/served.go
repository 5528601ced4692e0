package controller

import (
	"crypto/sha256"
	"fmt"

	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// served is what a provider was told about a service, in the last call, which succeeded.
type served struct {
	inputs string // of the service, as inputsOf returns them
	nodes  string // as digest returns them
}

// inputsOf returns a digest of all parts of a service that a load balancer may depend on. The
// addresses in the status are among them, because a provider may make them permanent once they are
// there. Conditions are not: lbctl writes those itself, and a write of one would lead to a call.
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
		return fmt.Sprint(meta.GetResourceVersion(), " ", err) // each version counts as another one
	}
	sum := sha256.Sum256(text)
	return string(sum[:])
}

// isSettled reports whether the provider was told all of this, and the service says that it is done.
func (c *Controller) isSettled(name object.Name, svc *corev1.Service, nodes string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	told, ok := c.served[name]
	return ok && told.inputs == inputsOf(svc) && told.nodes == nodes && saysMade(svc)
}

// saysMade reports whether the condition of a service is that of a call that has succeeded. Otherwise
// the next call has to write it.
func saysMade(svc *corev1.Service) bool {
	reason := object.Condition(svc.GetStatus().GetConditions(), object.ConditionLoadBalancer).GetReason()
	return reason == reasonEnsured || reason == reasonPortsRefused
}

// onlyNodesDiffer reports whether a provider was told the same about a service, with other nodes, and
// the service says that it is done.
func (c *Controller) onlyNodesDiffer(name object.Name, svc *corev1.Service, nodes string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	told, ok := c.served[name]
	return ok && told.inputs == inputsOf(svc) && told.nodes != nodes && saysMade(svc)
}

// beginCall forgets what a provider was told about a service, because a call that fails may have done
// half of what it should.
func (c *Controller) beginCall(name object.Name) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.served, name)
}

// endCall records what a provider was told.
func (c *Controller) endCall(name object.Name, svc *corev1.Service, nodes string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.served[name] = served{inputs: inputsOf(svc), nodes: nodes}
}
