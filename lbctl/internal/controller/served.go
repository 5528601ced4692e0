package controller

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// inputs are digests of all that a load balancer may depend on.
type inputs struct {
	asked string // of the parts of the service that its owner writes
	// made is of the addresses in the status, because a provider may make them permanent once they are there.
	made string
	// shared is of the addresses in use of all services that share addresses with this one, because a service that
	// requests no address follows the others.
	shared string
	nodes  string // of the eligible nodes
}

// served is the last call of a provider for a service that has succeeded.
type served struct {
	inputs
	// begun is set while a later call runs, and after it has failed, because it may have changed the load balancer
	// in part.
	begun bool
}

// inputsOf returns the inputs of a service. They leave out conditions, because lbctl writes them itself, and each write
// would lead to a call.
func (c *Controller) inputsOf(svc *corev1.Service, nodes []*corev1.Node) inputs {
	return inputs{
		asked: askedOf(svc), made: digestOf(svc, svc.GetStatus().GetLoadBalancer()), shared: c.sharedAddresses(svc), nodes: digest(nodes),
	}
}

// askedOf returns a digest of the parts of a service that its owner writes.
func askedOf(svc *corev1.Service) string {
	meta := svc.GetMetadata()
	return digestOf(svc, &corev1.Service{
		Metadata: &corev1.ObjectMeta{
			Namespace: meta.GetNamespace(), Name: meta.GetName(), Uid: meta.GetUid(), Labels: meta.GetLabels(), Annotations: meta.GetAnnotations(),
		},
		Spec: svc.GetSpec(),
	})
}

// digestOf returns a digest of a part of a service.
func digestOf(svc *corev1.Service, part proto.Message) string {
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(part)
	if err != nil {
		return fmt.Sprint(svc.GetMetadata().GetResourceVersion(), " ", err) // each version counts as a change
	}
	sum := sha256.Sum256(text)
	return string(sum[:])
}

// sharedAddresses returns the different addresses that the services of a share have. It does not grow with the number
// of the services, and it does not change when another service joins. The result is empty for a service that shares
// nothing.
func (c *Controller) sharedAddresses(svc *corev1.Service) string {
	owner := spec.OwnerOfAddresses(svc)
	if owner.Kind != spec.KindAddressShare {
		return ""
	}
	var all []string
	for _, other := range c.cfg.View.Sharers(owner.UID) {
		for i, ingress := range other.GetStatus().GetLoadBalancer().GetIngress() {
			if _, err := netip.ParseAddr(ingress.GetIp()); err == nil {
				all = append(all, fmt.Sprint(i, " ", ingress.GetIp()))
			}
		}
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ",")
}

// isSettled reports whether the last call of the provider had the same inputs, and the condition of the service
// says that it succeeded.
func (c *Controller) isSettled(name object.Name, svc *corev1.Service, now inputs) bool {
	told, ok := c.lastCall(name)
	return ok && !told.begun && told.inputs == now && saysMade(svc)
}

// onlyNodesDiffer reports whether the last call of the provider had the same inputs with other nodes, and the
// condition of the service says that it succeeded.
func (c *Controller) onlyNodesDiffer(name object.Name, svc *corev1.Service, now inputs) bool {
	told, ok := c.lastCall(name)
	differ := told.nodes != now.nodes
	told.nodes = now.nodes
	return ok && !told.begun && differ && told.inputs == now && saysMade(svc)
}

// lastCall returns the last call for a service that has succeeded, and whether there is one.
func (c *Controller) lastCall(name object.Name) (served, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	told, ok := c.served[name]
	return told, ok
}

// saysMade reports whether the condition of a service says that a call of the provider has succeeded. Otherwise
// the next call has to write the condition.
func saysMade(svc *corev1.Service) bool {
	reason := object.Condition(svc.GetStatus().GetConditions(), object.ConditionLoadBalancer).GetReason()
	return reason == reasonEnsured || reason == reasonPortsRefused
}

// beginCall records that a call for a service begins.
func (c *Controller) beginCall(name object.Name) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if told, ok := c.served[name]; ok {
		told.begun = true
		c.served[name] = told
	}
}

// endCall records the inputs of a call that has succeeded. They were computed before the call, because a
// change during the call has to lead to another one.
func (c *Controller) endCall(name object.Name, told inputs) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.served[name] = served{inputs: told}
}
