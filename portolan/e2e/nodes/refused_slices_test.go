package nodes

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	endpointsv1 "portolan.dev/api/endpoints/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// largestSliceOfEarlierReleases is the number of ports that a slice might have in earlier releases. The registry
// admitted services with more, and then refused their slices.
const largestSliceOfEarlierReleases = 100

// putPod creates or changes a ready pod of the service web, with a container port "http".
func (c *cluster) putPod(pods registryv1.PodServiceClient, name, ip string, http int32) {
	c.Helper()
	if _, err := pods.CreatePod(c.Context(), &registryv1.CreatePodRequest{Pod: &corev1.Pod{
		Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "web"}},
		Spec:     &corev1.PodSpec{Containers: []*corev1.Container{{Name: "main", Ports: []*corev1.ContainerPort{{Name: "http", ContainerPort: http}}}}},
	}}); err != nil {
		c.Fatal(err)
	}
	if _, err := pods.UpdatePodStatus(c.Context(), &registryv1.UpdatePodStatusRequest{Pod: &corev1.Pod{
		Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name},
		Status: &corev1.PodStatus{
			Phase: corev1.PodPhase_POD_PHASE_RUNNING, PodIp: ip,
			Conditions: []*corev1.Condition{{Type: object.ConditionReady, Status: corev1.ConditionStatus_CONDITION_STATUS_TRUE}},
		},
	}}); err != nil {
		c.Fatal(err)
	}
}

func (c *cluster) deletePod(pods registryv1.PodServiceClient, name string) {
	c.Helper()
	now := int64(0)
	if _, err := pods.DeletePod(c.Context(), &registryv1.DeletePodRequest{Namespace: "default", Name: name, GracePeriodSeconds: &now}); err != nil {
		c.Fatal(err)
	}
}

// awaitEndpoints waits until the slices of the service web have exactly these addresses, each with the number of ports.
func (c *cluster) awaitEndpoints(client registryv1.EndpointSliceServiceClient, ports int, want ...string) {
	c.Helper()
	wanted := map[string]int{}
	for _, address := range want {
		wanted[address] = ports
	}
	kittest.Eventually(c.T, fmt.Sprintf("endpoints %v with %d ports", want, ports), func() error {
		list, err := client.ListEndpointSlices(c.Context(), &registryv1.ListEndpointSlicesRequest{Namespace: "default"})
		if err != nil {
			return err
		}
		got := map[string]int{}
		for _, slice := range list.GetEndpointSlices() {
			for _, ep := range slice.GetEndpoints() {
				got[ep.GetAddresses()[0]] += len(slice.GetPorts())
			}
		}
		if !maps.Equal(got, wanted) {
			return fmt.Errorf("they are %v", got)
		}
		return nil
	})
}

// ports returns as many ports of a service, the first with a named target port.
func ports(n int) []*corev1.ServicePort {
	var all []*corev1.ServicePort
	for i := range n {
		all = append(all, &corev1.ServicePort{Name: fmt.Sprint("p", i), Port: int32(8000 + i)})
	}
	all[0].TargetPort = &corev1.IntOrString{Value: &corev1.IntOrString_Name{Name: "http"}}
	return all
}

// TestAServiceGrowsBeyondAHundredPorts has a running service with 100 ports that gets another one. It has endpoints
// with all ports, and a pod that is deleted leaves them.
func TestAServiceGrowsBeyondAHundredPorts(t *testing.T) {
	c := control(t, netip.MustParsePrefix("127.18.0.0/16"))
	conn := c.connect("registry")
	services, pods, slicesOf := registryv1.NewServiceServiceClient(conn), registryv1.NewPodServiceClient(conn), registryv1.NewEndpointSliceServiceClient(conn)
	c.startController("endpointctl")
	svc := c.createWeb(services, ports(largestSliceOfEarlierReleases))
	c.putPod(pods, "p1", "127.1.0.1", 80)
	c.putPod(pods, "p2", "127.1.0.2", 80)
	c.awaitEndpoints(slicesOf, largestSliceOfEarlierReleases, "127.1.0.1", "127.1.0.2")
	svc.Spec.Ports = ports(largestSliceOfEarlierReleases + 1)
	svc.Metadata.ResourceVersion = 0
	if _, err := services.UpdateService(t.Context(), &registryv1.UpdateServiceRequest{Service: svc}); err != nil {
		t.Fatal(err)
	}
	c.awaitEndpoints(slicesOf, largestSliceOfEarlierReleases+1, "127.1.0.1", "127.1.0.2")
	c.deletePod(pods, "p1")
	c.awaitEndpoints(slicesOf, largestSliceOfEarlierReleases+1, "127.1.0.2")
}

// createWeb creates the service web, when the allocator is ready.
func (c *cluster) createWeb(services registryv1.ServiceServiceClient, ports []*corev1.ServicePort, change ...func(*corev1.Service)) *corev1.Service {
	c.Helper()
	svc := &corev1.Service{
		Metadata: &corev1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:     &corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: ports},
	}
	for _, fn := range change {
		fn(svc)
	}
	kittest.Eventually(c.T, "the service to be created", func() error {
		resp, err := services.CreateService(c.Context(), &registryv1.CreateServiceRequest{Service: svc})
		if err == nil {
			svc = resp.GetService()
		}
		return err
	})
	return svc
}

// TestARefusedSliceHoldsBackNoRemoval has a registry with a quota of three slices, which a service of both families needs
// for the numbers that its pods have for a port. Another pod needs a fourth slice, which is refused. Pods that are
// deleted leave the slices all the same, also a pod that was alone in its slice. The service counts as failing, with
// an Event that names the quota, until that slice has made room.
func TestARefusedSliceHoldsBackNoRemoval(t *testing.T) {
	c := control(t, netip.MustParsePrefix("127.17.0.0/16"), func(cfg *registry.Config) {
		cfg.NamespaceQuotas = []registry.NamespaceQuota{{Namespace: "default", Resource: "endpointslices", Limit: 3}}
		cfg.ServiceCIDR = append(cfg.ServiceCIDR, netip.MustParsePrefix("fd00:17::/112"))
	})
	conn := c.connect("registry")
	pods, slicesOf := registryv1.NewPodServiceClient(conn), registryv1.NewEndpointSliceServiceClient(conn)
	controller := c.startController("endpointctl")
	c.createWeb(registryv1.NewServiceServiceClient(conn), ports(1), func(svc *corev1.Service) {
		svc.Spec.ClusterIp = object.ClusterIPNone // needs no address of the allocator
		svc.Spec.IpFamilyPolicy = corev1.IPFamilyPolicy_IP_FAMILY_POLICY_REQUIRE_DUAL_STACK
	})
	c.putPod(pods, "p1", "127.1.0.1", 80)
	c.putPod(pods, "p2", "127.1.0.2", 80)
	c.putPod(pods, "alone", "127.1.0.3", 81)
	c.putPod(pods, "six", "fd00:244::1", 80)
	c.awaitEndpoints(slicesOf, 1, "127.1.0.1", "127.1.0.2", "127.1.0.3", "fd00:244::1")
	c.awaitFailure(controller, "")

	const quota = "quota of namespace default: endpointslices: 3 of 3 are used"
	c.putPod(pods, "refused", "fd00:244::2", 81)
	c.awaitFailure(controller, quota)
	c.awaitEvent("FailedToUpdateEndpointSlices", quota)
	c.deletePod(pods, "p1")
	c.awaitEndpoints(slicesOf, 1, "127.1.0.2", "127.1.0.3", "fd00:244::1")
	c.awaitFailure(controller, quota)
	c.deletePod(pods, "alone")
	c.awaitEndpoints(slicesOf, 1, "127.1.0.2", "fd00:244::1", "fd00:244::2")
	c.awaitFailure(controller, "")
}

// awaitFailure waits until the controller says that the endpoints of the service web cannot be written, for a reason;
// "": until it says nothing.
func (c *cluster) awaitFailure(controller *controller, reason string) {
	c.Helper()
	kittest.Eventually(c.T, fmt.Sprintf("the failure %q", reason), func() error {
		resp, err := controller.ExplainService(c.Context(), &endpointsv1.ExplainServiceRequest{Namespace: "default", Name: "web"})
		if err != nil {
			return err
		}
		got := resp.GetFailure().GetMessage()
		if (reason == "") != (got == "") || !strings.Contains(got, reason) {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
}

// awaitEvent waits for an Event on the service web.
func (c *cluster) awaitEvent(reason, text string) {
	c.Helper()
	events := registryv1.NewEventServiceClient(c.connect("registry"))
	kittest.Eventually(c.T, "an Event "+reason, func() error {
		resp, err := events.ListEvents(c.Context(), &registryv1.ListEventsRequest{Namespace: "default", FieldSelector: "regarding.name=web"})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(resp.GetEvents(), func(e *corev1.Event) bool { return e.GetReason() == reason && strings.Contains(e.GetMessage(), text) }) {
			return fmt.Errorf("there are %v", resp.GetEvents())
		}
		return nil
	})
}
