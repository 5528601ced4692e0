package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	loadbalancerv1 "portolan.dev/api/loadbalancer/v1"
	"portolan.dev/services/balancer"
	"portolan.dev/services/spec"

	"portolan.dev/lbctl/internal/providers"
)

// checkCapabilities returns an error if the provider cannot do all that a service asks for. To do a part of it
// would be worse: an internal service could be reached from everywhere, or a port would be missing without an
// error.
func (c *Controller) checkCapabilities(ctx context.Context, svc *corev1.Service, provider *providers.Provider) error {
	can, err := provider.Capabilities(ctx)
	if err != nil {
		return err
	}
	if why := lacks(can, svc); why != "" {
		return status.Errorf(codes.FailedPrecondition, "the provider %s %s", provider.Class(), why)
	}
	return nil
}

// lacks returns the first demand of a service that a provider cannot meet, as a text with the remedy, or "" if
// the provider can meet all.
func lacks(can *loadbalancerv1.GetCapabilitiesResponse, svc *corev1.Service) string {
	ports := svc.GetSpec().GetPorts()
	for _, port := range ports {
		switch {
		case !slices.Contains(can.GetProtocols(), port.GetProtocol()):
			return fmt.Sprintf("forwards no %s (port %s): change the protocol, or use another class or type NodePort", spec.EnumName(port.GetProtocol()), portText(port))
		case can.GetNeedsNodePorts() && port.GetNodePort() == 0:
			return fmt.Sprintf("needs node ports, and port %s has none: set spec.allocateLoadBalancerNodePorts to true", portText(port))
		case port.GetProtocol() != ports[0].GetProtocol() && !can.GetMixedProtocols():
			return fmt.Sprintf("takes one protocol for each service, and port %s has another one than port %s: make a service for each protocol", portText(port), portText(ports[0]))
		}
	}
	if annotation := balancer.Internal(svc); annotation != "" && !can.GetInternal() {
		return fmt.Sprintf("makes no internal load balancer, for which the annotation %s asks: take it away, or use another class; the built-in providers make them of lbctl's -internal-pools", annotation)
	}
	hasFamily := func(f corev1.IPFamily) bool { return slices.Contains(can.GetFamilies(), f) }
	if !slices.ContainsFunc(svc.GetSpec().GetIpFamilies(), hasFamily) {
		return "has no addresses of the service's families: change spec.ipFamilies, or use another class"
	}
	return ""
}

// portText returns a port with its protocol, such as "53/UDP".
func portText(port interface {
	GetPort() int32
	GetProtocol() corev1.Protocol
},
) string {
	return fmt.Sprintf("%d/%s", port.GetPort(), spec.EnumName(port.GetProtocol()))
}

// portErrors lists the ports that a provider could not set up, with the provider's reasons. The result is empty
// if there are none.
func portErrors(made *corev1.LoadBalancerStatus) string {
	var texts []string
	for _, ingress := range made.GetIngress() {
		for _, port := range ingress.GetPorts() {
			if why := port.GetError(); why != "" {
				texts = append(texts, fmt.Sprintf("port %s at %s: %s", portText(port), ingress.GetIp()+ingress.GetHostname(), why))
			}
		}
	}
	return strings.Join(texts, "; ")
}
