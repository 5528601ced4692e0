package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	loadbalancerv1 "portolan.dev/api/loadbalancer/v1"
	"portolan.dev/services/balancer"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"

	"portolan.dev/lbctl/internal/providers"
)

// sync does the next steps for a service. If it returns an error, the service is tried again.
func (c *Controller) sync(ctx context.Context, name object.Name) error {
	svc := c.cfg.View.Service(name)
	switch {
	case svc == nil:
		c.forget(name)
		return nil
	case spec.IsLoadBalancer(svc) && svc.GetMetadata().GetDeletionTimestamp() == nil:
		return c.keep(ctx, name, svc)
	case spec.HasBalancerFinalizer(svc):
		return c.remove(ctx, name, svc)
	}
	c.forget(name)
	return c.clearReleased(ctx, svc)
}

// clearReleased clears the status of a service without the finalizer. If the service is being deleted and a provider
// is known for its class, that provider has given back the addresses before the finalizer was removed, or a person has
// removed the finalizer by hand. Earlier releases left such addresses in the status.
func (c *Controller) clearReleased(ctx context.Context, svc *corev1.Service) error {
	if !spec.IsLoadBalancer(svc) || c.cfg.Providers.Of(svc.GetSpec().GetLoadBalancerClass()) == nil {
		return nil
	}
	_, err := c.clearStatus(ctx, svc, without(svc.GetStatus().GetConditions(), spec.BalancerConditions()...))
	return err
}

// clearStatus removes the load balancer from the status of a service, and replaces the conditions. It returns the new
// version of the service.
func (c *Controller) clearStatus(ctx context.Context, svc *corev1.Service, conditions []*corev1.Condition) (*corev1.Service, error) {
	return c.writeStatus(ctx, svc, &corev1.ServiceStatus{Conditions: conditions})
}

// keep makes sure that a service has its finalizer and an up-to-date load balancer.
func (c *Controller) keep(ctx context.Context, name object.Name, svc *corev1.Service) error {
	class := svc.GetSpec().GetLoadBalancerClass()
	provider := c.cfg.Providers.Of(class)
	if provider == nil {
		c.setWaiting(name, "")
		why := fmt.Sprintf("no load-balancer provider serves the class %q; known are %s: run one (lbctl -providers), or use another class", class, c.cfg.Providers.Classes())
		return c.fail(ctx, svc, waits{reason: "NoProvider", message: why})
	}
	claimed, err := c.claim(ctx, name, svc, provider)
	if err != nil {
		return c.failed(ctx, name, claimed, err)
	}
	nodes := c.cfg.View.EligibleNodes()
	now := c.inputsOf(claimed, nodes)
	if claimed == svc && c.isSettled(name, svc, now) {
		return nil
	}
	return c.call(ctx, name, claimed, provider, nodes, now)
}

// call has the provider make or change the load balancer of a service. now has the inputs of the call.
func (c *Controller) call(ctx context.Context, name object.Name, svc *corev1.Service, provider *providers.Provider, nodes []*corev1.Node, now inputs) error {
	onlyNodes := c.onlyNodesDiffer(name, svc, now)
	c.beginCall(name)
	if onlyNodes {
		_, err := provider.Update(ctx, &loadbalancerv1.UpdateLoadBalancerRequest{Service: svc, Nodes: nodes})
		switch {
		case err == nil:
			c.endCall(name, now)
			c.providerAnswered(svc)
			return nil
		case status.Code(err) != codes.NotFound: // otherwise the provider has lost it, and Ensure makes it again
			return c.failed(ctx, name, svc, err)
		}
	}
	resp, err := provider.Ensure(ctx, &loadbalancerv1.EnsureLoadBalancerRequest{Service: svc, Nodes: nodes, Internal: balancer.Internal(svc) != ""})
	if err != nil {
		return c.failed(ctx, name, svc, err)
	}
	c.setWaiting(name, "")
	c.providerAnswered(svc)
	if resp.GetPending() {
		return errPending(c.fail(ctx, svc, waits{reason: "Pending", message: fmt.Sprintf("the provider %s is still making the load balancer", provider.Class())}))
	}
	if err := c.succeed(ctx, name, svc, provider, resp.GetStatus()); err != nil {
		return err
	}
	c.endCall(name, now)
	return nil
}

// errPending returns err, or, if that is nil, the error with which a pending operation is tried again.
func errPending(err error) error {
	if err != nil {
		return err
	}
	return status.Error(codes.Unavailable, "the provider has not finished yet")
}

// claim makes sure that a service has the finalizer and names this provider. If another provider has made the
// load balancer, that one deletes it first. claim returns the service with its changes.
func (c *Controller) claim(ctx context.Context, name object.Name, svc *corev1.Service, provider *providers.Provider) (*corev1.Service, error) {
	if err := c.checkCapabilities(ctx, svc, provider); err != nil {
		return svc, err
	}
	recorded := svc.GetMetadata().GetAnnotations()[object.AnnotationBalancerProvider]
	if spec.HasBalancerFinalizer(svc) && recorded == provider.Class() {
		return svc, nil
	}
	if spec.HasBalancerFinalizer(svc) && recorded != "" {
		cleared, err := c.clearStatus(ctx, svc, svc.GetStatus().GetConditions())
		if err != nil {
			return svc, err
		}
		svc = cleared
		if err := c.deleteBalancer(ctx, svc); err != nil {
			return svc, err
		}
	}
	c.say(ctx, svc, corev1.EventType_EVENT_TYPE_NORMAL, "EnsuringLoadBalancer", fmt.Sprintf("the provider %s makes the load balancer", provider.Class()))
	return c.writeMark(ctx, svc, provider.Class())
}

// succeed writes the state of a load balancer into its service.
func (c *Controller) succeed(ctx context.Context, name object.Name, svc *corev1.Service, provider *providers.Provider, made *corev1.LoadBalancerStatus) error {
	texts := ingressTexts(made)
	if len(texts) == 0 {
		return c.failed(ctx, name, svc, status.Errorf(codes.Internal, "the provider %s has made the load balancer without an address: that is a fault of the provider", provider.Class()))
	}
	changed := !slices.Equal(texts, ingressTexts(svc.GetStatus().GetLoadBalancer()))
	problems := portErrors(made)
	next := madeStatus(svc, provider, made, problems)
	written, err := c.writeStatus(ctx, svc, next)
	switch {
	case apierr.Code(err) == codes.InvalidArgument:
		return c.failed(ctx, name, svc, status.Errorf(codes.InvalidArgument, "the provider %s has answered what is not valid: %s", provider.Class(), apierr.ToStatus(err).Message()))
	case err != nil:
		return err
	}
	if changed {
		c.say(ctx, written, corev1.EventType_EVENT_TYPE_NORMAL, "EnsuredLoadBalancer", "the load balancer has "+strings.Join(texts, ", "))
	}
	if problems != "" {
		c.say(ctx, written, corev1.EventType_EVENT_TYPE_WARNING, "SyncLoadBalancerFailed", portsMessage(provider, problems))
	}
	c.saySettings(ctx, name, svc, object.Condition(next.GetConditions(), object.ConditionLoadBalancer))
	return nil
}

// Reasons of the condition after a call that has succeeded.
const (
	reasonEnsured      = "Ensured"
	reasonPortsRefused = "PortsRefused"
)

// madeStatus returns the status of a service with a load balancer. problems lists the ports that the provider
// could not set up.
func madeStatus(svc *corev1.Service, provider *providers.Provider, made *corev1.LoadBalancerStatus, problems string) *corev1.ServiceStatus {
	next := svc.GetStatus().CloneVT()
	if next == nil {
		next = &corev1.ServiceStatus{}
	}
	next.LoadBalancer = made
	if problems == "" {
		next.Conditions = withCondition(next.Conditions, corev1.ConditionStatus_CONDITION_STATUS_TRUE, reasonEnsured, withSettings("by the provider "+provider.Class(), svc))
	} else {
		next.Conditions = withCondition(next.Conditions, corev1.ConditionStatus_CONDITION_STATUS_FALSE, reasonPortsRefused, withSettings(portsMessage(provider, problems), svc))
	}
	return next
}

func portsMessage(provider *providers.Provider, problems string) string {
	return fmt.Sprintf("the provider %s has not set up all ports: %s", provider.Class(), problems)
}

// ingressTexts returns the addresses and names of a load balancer.
func ingressTexts(made *corev1.LoadBalancerStatus) []string {
	var texts []string
	for _, ingress := range made.GetIngress() {
		text := ingress.GetIp()
		if text == "" {
			text = ingress.GetHostname()
		}
		texts = append(texts, text)
	}
	return texts
}

// remove deletes the load balancer of a service, and then removes the finalizer. It clears the status first, because
// an address may belong to another service as soon as the provider has given it back. The service may then exist for
// long, because of its type or because of a finalizer of another program.
func (c *Controller) remove(ctx context.Context, name object.Name, svc *corev1.Service) error {
	c.setWaiting(name, "")
	c.say(ctx, svc, corev1.EventType_EVENT_TYPE_NORMAL, "DeletingLoadBalancer", "the load balancer is being deleted")
	svc, err := c.clearStatus(ctx, svc, without(svc.GetStatus().GetConditions(), spec.BalancerConditions()...))
	if err != nil {
		return err
	}
	if err := c.deleteBalancer(ctx, svc); err != nil {
		c.sayNotDeleted(ctx, name, svc, err)
		return err
	}
	c.providerAnswered(svc)
	c.say(ctx, svc, corev1.EventType_EVENT_TYPE_NORMAL, "DeletedLoadBalancer", "the load balancer is deleted, and its addresses are given back")
	if _, err := c.writeMark(ctx, svc, ""); err != nil {
		return err
	}
	c.forget(name)
	return nil
}

// errStillDeleting marks the error of a provider that has answered and has not finished.
var errStillDeleting = errors.New("pending")

// sayNotDeleted records an Event about a load balancer that is not deleted yet. If the provider has not answered,
// nothing is wrong with the service, and it waits.
func (c *Controller) sayNotDeleted(ctx context.Context, name object.Name, svc *corev1.Service, err error) {
	typ, reason := corev1.EventType_EVENT_TYPE_WARNING, "SyncLoadBalancerFailed"
	if isUnavailable(err) && !errors.Is(err, errStillDeleting) {
		c.awaitProvider(name, svc, err)
		if apierr.Code(err) == codes.Unavailable {
			typ, reason = corev1.EventType_EVENT_TYPE_NORMAL, "LoadBalancerPending"
		}
	}
	c.say(ctx, svc, typ, reason, "the load balancer is not deleted yet: "+apierr.ToStatus(err).Message())
}

// deleteBalancer calls the provider that made the load balancer of a service to delete it. If that provider is
// not recorded, it calls all providers.
func (c *Controller) deleteBalancer(ctx context.Context, svc *corev1.Service) error {
	makers := c.cfg.Providers.All()
	if class := svc.GetMetadata().GetAnnotations()[object.AnnotationBalancerProvider]; class != "" {
		maker := c.cfg.Providers.Of(class)
		if maker == nil {
			return status.Errorf(codes.FailedPrecondition, "the provider of the class %q, which made it, is not configured: run it (lbctl -providers), or delete the load balancer by hand and then the finalizer %s", class, object.FinalizerLoadBalancer)
		}
		makers = []*providers.Provider{maker}
	}
	for _, maker := range makers {
		resp, err := maker.Delete(ctx, &loadbalancerv1.DeleteLoadBalancerRequest{Service: svc})
		if err != nil {
			return err
		}
		if resp.GetPending() {
			return fmt.Errorf("%w: %w", errStillDeleting, status.Errorf(codes.Unavailable, "the provider %s is still deleting it", maker.Class()))
		}
	}
	return nil
}

// digest returns a text that changes with the names, uids and addresses of the nodes.
func digest(nodes []*corev1.Node) string {
	var text strings.Builder
	for _, node := range nodes {
		fmt.Fprintf(&text, "%s %s", node.GetMetadata().GetUid(), node.GetMetadata().GetName())
		for _, a := range node.GetStatus().GetAddresses() {
			fmt.Fprintf(&text, " %s", a.GetAddress())
		}
		text.WriteByte('\n')
	}
	return text.String()
}

// setWaiting records that a service waits for an address, which owner would own in the allocator. An empty owner
// means that the service does not wait.
func (c *Controller) setWaiting(name object.Name, owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if owner == "" {
		delete(c.waiting, name)
		return
	}
	c.waiting[name] = owner
}

// forget drops all state about a service.
func (c *Controller) forget(name object.Name) {
	c.events.Forget(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, name)
	delete(c.served, name)
	delete(c.settings, name)
	c.forgetUnanswered(name)
}

// sameStatus reports whether a service already has the status next.
func sameStatus(svc *corev1.Service, next *corev1.ServiceStatus) bool {
	now := svc.GetStatus()
	if now == nil {
		now = &corev1.ServiceStatus{}
	}
	return proto.Equal(now, next)
}
