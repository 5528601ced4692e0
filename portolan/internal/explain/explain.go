package explain

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"google.golang.org/grpc"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/internal/rollout"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// Daemons are the connections to the daemons that are asked.
type Daemons struct {
	Registry  grpc.ClientConnInterface
	Allocator grpc.ClientConnInterface
	Endpoints grpc.ClientConnInterface
	DNS       grpc.ClientConnInterface
	// Dial connects to node agents. The registry has their addresses.
	Dial rollout.DialAgent
}

// explainer is one run.
type explainer struct {
	Daemons

	service *corev1.Service
	newest  uint64 // revision of the newest slice
	// backends are the endpoints of the registry's slices.
	backends map[netip.AddrPort]bool
	zone     string
}

// Service explains one service. It returns an error only if the service itself cannot be read.
func Service(ctx context.Context, daemons Daemons, namespace, name string) (*Report, error) {
	got, err := registryv1.NewServiceServiceClient(daemons.Registry).GetService(ctx, &registryv1.GetServiceRequest{Namespace: namespace, Name: name})
	if err != nil {
		return nil, err
	}
	c := &explainer{Daemons: daemons, service: got.GetService()}
	if settings, err := registryv1.NewDiscoveryServiceClient(daemons.Registry).GetSettings(ctx, &registryv1.GetSettingsRequest{}); err == nil {
		c.zone = settings.GetZone()
	}
	report := &Report{Service: namespace + "/" + name}
	for _, link := range c.steps() {
		report.Steps = append(report.Steps, link(ctx))
	}
	report.setVerdict(c.service.GetSpec().GetType() != corev1.ServiceType_SERVICE_TYPE_EXTERNAL_NAME)
	return report, nil
}

// steps returns the steps for a service of this type.
func (c *explainer) steps() []func(context.Context) Step {
	switch {
	case c.service.GetSpec().GetType() == corev1.ServiceType_SERVICE_TYPE_EXTERNAL_NAME:
		return []func(context.Context) Step{c.asWritten, c.names}
	case object.IsHeadless(c.service):
		return []func(context.Context) Step{c.asWritten, c.selection, c.slices, c.names}
	case spec.IsLoadBalancer(c.service):
		return []func(context.Context) Step{c.asWritten, c.selection, c.slices, c.addresses, c.balancer, c.names, c.nodes}
	default:
		return []func(context.Context) Step{c.asWritten, c.selection, c.slices, c.addresses, c.names, c.nodes}
	}
}

// asWritten reports the service as its owner wrote it.
func (c *explainer) asWritten(context.Context) Step {
	s := c.service.GetSpec()
	step := Step{Title: "service", State: OK}
	step.addLine("type %s, last changed at revision %d", spec.EnumName(s.GetType()), c.service.GetMetadata().GetResourceVersion())
	if c.service.GetMetadata().GetDeletionTimestamp() != nil {
		step.setState(Broken, "the service is being deleted; it waits for "+strings.Join(c.service.GetMetadata().GetFinalizers(), ", "))
	}
	for i, port := range s.GetPorts() {
		if i == maxShown {
			step.addLine("and %d more ports", len(s.GetPorts())-maxShown)
			break
		}
		step.addLine("port %s%d/%s -> %s", named(port.GetName()), port.GetPort(), spec.EnumName(port.GetProtocol()), target(port))
	}
	return step
}

func named(name string) string {
	if name == "" {
		return ""
	}
	return name + " "
}

func target(port *corev1.ServicePort) string {
	if name := port.GetTargetPort().GetName(); name != "" {
		return fmt.Sprintf("the pods' port named %q", name)
	}
	return fmt.Sprintf("port %d of the pods", port.GetTargetPort().GetNumber())
}

// noAnswer returns the step of a daemon that did not answer.
func noAnswer(step Step, daemon string, err error) Step {
	step.addLine("%s did not answer: %s", daemon, apierr.Describe(err))
	step.setState(Unknown, "is "+daemon+" running, and is its address right?")
	return step
}
