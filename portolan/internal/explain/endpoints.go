package explain

import (
	"context"
	"fmt"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	endpointsv1 "portolan.dev/api/endpoints/v1"
	"portolan.dev/portolan/internal/rollout"
	"portolan.dev/services/client"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// maxShown is the number of pods, endpoints and other items that are listed; the others are only
// counted.
const maxShown = 10

// selection asks the endpoint controller which pods are behind the service, and why.
func (c *explainer) selection(ctx context.Context) Step {
	step := Step{Title: "selector and pods", State: OK}
	meta := c.service.GetMetadata()
	answer, err := endpointsv1.NewEndpointControllerServiceClient(c.Endpoints).ExplainService(ctx,
		&endpointsv1.ExplainServiceRequest{Namespace: meta.GetNamespace(), Name: meta.GetName()})
	if err != nil {
		return noAnswer(step, "endpointctl", err)
	}
	c.pods(&step, answer)
	for _, endpoint := range answer.GetLeftOut() {
		step.addLine("left out of the slices because the registry refuses it: %s", endpoint)
		step.setState(Notice, "some addresses of the Endpoints are left out; the reasons are above")
	}
	if failure := answer.GetFailure(); failure != nil {
		step.addLine("%s", rollout.FailureText(failure))
		step.setState(Broken, "the slices are not as they should be; the error is above, the log of endpointctl has more")
	}
	if answer.GetFailure() == nil && !answer.GetSyncedHere() {
		step.addLine("the asked replica of the endpoint controller does not sync the service, so it does not know of failures")
		step.setState(Unknown, "ask the replica that does, with --endpointctl; portolan get leases shows it")
	}
	return step
}

// pods reports the pods of the namespace, with the reason why each is behind the service or not.
func (c *explainer) pods(step *Step, answer *endpointsv1.ExplainServiceResponse) {
	selector := c.service.GetSpec().GetSelector()
	if len(selector) == 0 {
		step.addLine("no selector: endpoints are written by hand")
		return
	}
	selected, ready := 0, 0
	for i, pod := range answer.GetPods() {
		if pod.GetSelected() {
			selected++
		}
		if pod.GetReady() {
			ready++
		}
		if i < maxShown {
			step.addLine("%s", podLine(pod))
		}
	}
	if more := len(answer.GetPods()) - maxShown; more > 0 {
		step.addLine("and %d more pods", more)
	}
	step.addLine("%d of %d pods are behind the service, %d take traffic", selected, len(answer.GetPods()), ready)
	switch {
	case len(answer.GetPods()) == 0:
		step.setState(Broken, fmt.Sprintf("the namespace has no pods; the service selects those with the labels %s", labels(selector)))
	case selected == 0:
		step.setState(Broken, fmt.Sprintf("no pod is behind the service, which selects the labels %s; the reasons are above; compare with: portolan get pods -n %s -o yaml",
			labels(selector), c.service.GetMetadata().GetNamespace()))
	case ready == 0:
		step.setState(Broken, "no pod is ready; the reasons are above")
	}
}

func podLine(pod *endpointsv1.PodVerdict) string {
	verdict := "out"
	switch {
	case pod.GetReady():
		verdict = "in, ready"
	case pod.GetSelected():
		verdict = "in, not ready"
	}
	line := fmt.Sprintf("pod %s %s: %s", pod.GetName(), verdict, pod.GetReason())
	for _, port := range pod.GetUnresolvedPorts() {
		line += "; " + port
	}
	return line
}

func labels(selector map[string]string) string {
	parts := make([]string, 0, len(selector))
	for key, value := range selector {
		parts = append(parts, key+"="+value)
	}
	return strings.Join(parts, ",")
}

// slices reports the stored slices, which all daemons follow.
func (c *explainer) slices(ctx context.Context) Step {
	step := Step{Title: "endpoint slices", State: OK}
	meta := c.service.GetMetadata()
	listed, err := c.readSlices(ctx)
	if err != nil {
		return noAnswer(step, "registry", err)
	}
	c.newest = rollout.Revision(c.service, listed)
	c.staleSlices(&step, listed)
	total, ready := 0, 0
	for i, slice := range listed {
		inSlice := 0
		for _, endpoint := range slice.GetEndpoints() {
			if object.IsReadyEndpoint(endpoint) {
				inSlice++
			}
		}
		total, ready = total+len(slice.GetEndpoints()), ready+inSlice
		if i < maxShown {
			step.addLine("%s: %s, %d endpoints, %d ready%s", slice.GetMetadata().GetName(), spec.EnumName(slice.GetAddressType()), len(slice.GetEndpoints()), inSlice, ports(slice))
		}
	}
	step.addLine("%d endpoints in all, %d ready", total, ready)
	switch {
	case len(listed) == 0 && len(c.service.GetSpec().GetSelector()) == 0:
		step.setState(Broken, fmt.Sprintf("write an EndpointSlice with the label %s=%s", object.LabelServiceName, meta.GetName()))
	case len(listed) == 0:
		step.setState(Broken, "the endpoint controller has not written any; is it running, and the leader?")
	case ready == 0:
		step.setState(Broken, "no endpoint is ready")
	}
	return step
}

// readSlices reads the service's slices from the registry, and records their endpoints as the backends
// that nodes may forward to.
func (c *explainer) readSlices(ctx context.Context) ([]*corev1.EndpointSlice, error) {
	meta := c.service.GetMetadata()
	all, err := client.ListOf[*corev1.EndpointSlice](ctx, client.New(c.Registry), client.Query{
		Namespace: meta.GetNamespace(), Labels: object.LabelServiceName + "=" + meta.GetName(),
	})
	if err == nil {
		c.backends = backendsOf(all)
	}
	return all, err
}

// staleSlices reports slices that were made from a selector that the service no longer has.
func (c *explainer) staleSlices(step *Step, slices []*corev1.EndpointSlice) {
	if len(c.service.GetSpec().GetSelector()) > 0 {
		return
	}
	for _, slice := range slices {
		if slice.GetMetadata().GetLabels()[object.LabelManagedBy] == object.ManagedByController {
			step.addLine("nothing updates %s: it was made from a selector, and the service has none", slice.GetMetadata().GetName())
			step.setState(Notice, "delete these slices, or give them a label "+object.LabelManagedBy+" of your own and tend them")
		}
	}
}

func ports(slice *corev1.EndpointSlice) string {
	var b strings.Builder
	for i, port := range slice.GetPorts() {
		if i == maxShown {
			fmt.Fprintf(&b, " and %d more ports", len(slice.GetPorts())-maxShown)
			break
		}
		fmt.Fprintf(&b, ", %s%d/%s", named(port.GetName()), port.GetPort(), spec.EnumName(port.GetProtocol()))
	}
	return b.String()
}
