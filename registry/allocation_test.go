package registry_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/kittest"
)

func port(name string, number, nodePort int32, protocol corev1.Protocol) *corev1.ServicePort {
	return &corev1.ServicePort{Name: name, Port: number, NodePort: nodePort, Protocol: protocol}
}

const (
	tcp = corev1.Protocol_PROTOCOL_TCP
	udp = corev1.Protocol_PROTOCOL_UDP

	typeNodePort     = corev1.ServiceType_SERVICE_TYPE_NODE_PORT
	typeClusterIP    = corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP
	typeLoadBalancer = corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER
	typeExternalName = corev1.ServiceType_SERVICE_TYPE_EXTERNAL_NAME
)

func withPorts(kind corev1.ServiceType, ports ...*corev1.ServicePort) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.Type, s.Spec.Ports = kind, ports }
}

func nodePorts(svc *corev1.Service) []int32 {
	var numbers []int32
	for _, p := range svc.GetSpec().GetPorts() {
		numbers = append(numbers, p.GetNodePort())
	}
	return numbers
}

// holds checks the values that the allocator has for a service.
func (i *installation) holds(t *testing.T, svc *corev1.Service, want ...string) {
	t.Helper()
	slices.Sort(want)
	kittest.Eventually(t, "allocations of "+svc.GetMetadata().GetName(), func() error {
		if got := i.allocator.Values(svc.GetMetadata().GetUid()); !slices.Equal(got, want) {
			return fmt.Errorf("it has %v, want %v", got, want)
		}
		return nil
	})
}

func TestNodePorts(t *testing.T) {
	for _, test := range []struct {
		name  string
		ports []*corev1.ServicePort
		want  []int32
		held  int
	}{
		{"one", []*corev1.ServicePort{port("", 80, 0, tcp)}, []int32{30000}, 1},
		{"two numbers", []*corev1.ServicePort{port("a", 80, 0, tcp), port("b", 81, 0, tcp)}, []int32{30000, 30001}, 2},
		{"one number, two protocols", []*corev1.ServicePort{port("a", 53, 0, tcp), port("b", 53, 0, udp)}, []int32{30000, 30000}, 1},
		{"asked for twice, two protocols", []*corev1.ServicePort{port("a", 53, 30005, tcp), port("b", 53, 30005, udp)}, []int32{30005, 30005}, 1},
		{"asked for once, two protocols", []*corev1.ServicePort{port("a", 53, 0, udp), port("b", 53, 30005, tcp)}, []int32{30005, 30005}, 1},
		{"taken for the other protocol", []*corev1.ServicePort{port("a", 53, 30005, tcp), port("b", 54, 30005, udp), port("c", 53, 0, udp)}, []int32{30005, 30005, 30000}, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			i, r := run(t)
			svc := r.create(t, web("web", withPorts(typeNodePort, test.ports...)))
			if got := nodePorts(svc); !slices.Equal(got, test.want) {
				t.Errorf("node ports %v, want %v", got, test.want)
			}
			if got := i.allocator.Used(); got != test.held+1 {
				t.Errorf("%d values are allocated, want the virtual IP and %d node ports", got, test.held)
			}
		})
	}
}

func TestAllocationIsConfirmed(t *testing.T) {
	i, r := run(t)
	r.create(t, web("web", withPorts(typeNodePort, port("", 80, 0, tcp))))
	kittest.Eventually(t, "confirmation", func() error {
		if held := i.allocator.Held(); len(held) > 0 {
			return fmt.Errorf("%v are held only", held)
		}
		return nil
	})
}

func TestValuesThatCannotBeHad(t *testing.T) {
	i, r := run(t)
	first := r.create(t, web("first", withPorts(typeNodePort, port("", 80, 30003, tcp))))
	before := i.allocator.Used()
	for _, test := range []struct {
		name   string
		change func(*corev1.Service)
		want   []string
		text   string
	}{
		{"taken IP", func(s *corev1.Service) { s.Spec.ClusterIp = first.GetSpec().GetClusterIp() }, []string{"spec.clusterIPs[0]"}, "already allocated"},
		{"IP out of range", func(s *corev1.Service) { s.Spec.ClusterIp = "192.0.2.1" }, []string{"spec.clusterIPs[0]"}, "not in the valid range"},
		{"taken node port", withPorts(typeNodePort, port("a", 80, 30001, tcp), port("b", 81, 30003, tcp)), []string{"spec.ports[1].nodePort"}, "already allocated"},
		{"everything", func(s *corev1.Service) {
			withPorts(typeNodePort, port("a", 80, 1000, tcp), port("b", 81, 30003, tcp))(s)
			s.Spec.ClusterIp = "192.0.2.1"
		}, []string{"spec.clusterIPs[0]", "spec.ports[0].nodePort", "spec.ports[1].nodePort"}, "valid range"},
	} {
		for _, dryRun := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, dry run %v", test.name, dryRun), func(t *testing.T) {
				_, err := r.services.CreateService(within(t), &registryv1.CreateServiceRequest{Service: web("second", test.change), DryRun: dryRun})
				if got := fields(err); !slices.Equal(got, test.want) || !strings.Contains(err.Error(), test.text) {
					t.Errorf("violations at %v, want %v; %v", got, test.want, err)
				}
				if n := i.allocator.Used(); n != before {
					t.Errorf("%d values are allocated, before it were %d", n, before)
				}
			})
		}
	}
}

func TestPoolFull(t *testing.T) {
	i, r := run(t)
	for n := range poolSize {
		r.create(t, web(fmt.Sprintf("web-%d", n)))
	}
	_, err := r.services.CreateService(within(t), &registryv1.CreateServiceRequest{Service: web("one-more")})
	if apierr.Code(err) != codes.ResourceExhausted {
		t.Errorf("create with a full pool: %v", err)
	}
	if n := i.allocator.Used(); n != poolSize {
		t.Errorf("%d values are allocated", n)
	}
}

func TestAllocatorAway(t *testing.T) {
	i, r := run(t)
	svc := r.create(t, web("web", withPorts(typeNodePort, port("", 80, 0, tcp))))
	i.allocator.SetAway(true)
	_, err := r.services.CreateService(within(t), &registryv1.CreateServiceRequest{Service: web("other")})
	if _, retry := apierr.RetryAfter(err); !apierr.IsUnavailable(err) || !retry {
		t.Errorf("create without an allocator: %v", err)
	}
	svc.Metadata.Labels = map[string]string{"needs": "nothing"}
	r.update(t, svc)
	if _, err := r.services.DeleteService(within(t), &registryv1.DeleteServiceRequest{Name: "web"}); err != nil {
		t.Errorf("delete without an allocator: %v", err)
	}
	i.holds(t, svc, "10.96.0.1", "30000")
	i.allocator.SetAway(false)
	i.holds(t, svc)
}

func TestValuesFollowTheType(t *testing.T) {
	i, r := run(t)
	svc := r.create(t, web("web", withPorts(typeLoadBalancer, port("", 80, 0, tcp)), func(s *corev1.Service) {
		s.Spec.ExternalTrafficPolicy = corev1.TrafficPolicy_TRAFFIC_POLICY_LOCAL
	}))
	if svc.GetSpec().GetHealthCheckNodePort() != 30001 {
		t.Errorf("health check node port = %d", svc.GetSpec().GetHealthCheckNodePort())
	}
	i.holds(t, svc, "10.96.0.1", "30000", "30001")

	svc.Spec.ExternalTrafficPolicy = corev1.TrafficPolicy_TRAFFIC_POLICY_CLUSTER
	svc = r.update(t, svc)
	i.holds(t, svc, "10.96.0.1", "30000")

	svc.Spec.Type = typeClusterIP
	svc = r.update(t, svc)
	i.holds(t, svc, "10.96.0.1")

	svc.Spec.Type, svc.Spec.ExternalName = typeExternalName, "example.com"
	svc = r.update(t, svc)
	if ip := svc.GetSpec().GetClusterIp(); ip != "" {
		t.Errorf("an ExternalName has the virtual IP %q", ip)
	}
	i.holds(t, svc)

	svc.Spec.Type, svc.Spec.ExternalName = typeNodePort, ""
	svc = r.update(t, svc)
	if svc.GetSpec().GetClusterIp() == "" || svc.GetSpec().GetPorts()[0].GetNodePort() == 0 {
		t.Errorf("back again without values: %v", svc.GetSpec())
	}
	i.holds(t, svc, svc.GetSpec().GetClusterIp(), fmt.Sprint(svc.GetSpec().GetPorts()[0].GetNodePort()))
}

func TestNodePortChanges(t *testing.T) {
	i, r := run(t)
	svc := r.create(t, web("web", withPorts(typeNodePort, port("a", 80, 0, tcp), port("b", 81, 0, tcp))))
	svc.Spec.Ports[0].NodePort = 30007
	svc.Spec.Ports[1].Name = "renamed"
	svc = r.update(t, svc)
	i.holds(t, svc, "10.96.0.1", "30001", "30007")

	svc.Spec.Ports[0].NodePort, svc.Spec.Ports[1].NodePort = 30001, 30007 // swapped: both are its own
	svc = r.update(t, svc)
	i.holds(t, svc, "10.96.0.1", "30001", "30007")

	svc.Spec.Ports = svc.Spec.Ports[:1]
	svc = r.update(t, svc)
	i.holds(t, svc, "10.96.0.1", "30001")
}

func TestLoadBalancerWithoutNodePorts(t *testing.T) {
	i, r := run(t)
	no := false
	svc := r.create(t, web("web", withPorts(typeLoadBalancer, port("a", 80, 0, tcp), port("b", 81, 30004, tcp)), func(s *corev1.Service) {
		s.Spec.AllocateLoadBalancerNodePorts = &no
	}))
	if got := nodePorts(svc); !slices.Equal(got, []int32{0, 30004}) {
		t.Errorf("node ports %v", got)
	}
	svc.Spec.Ports[1].NodePort = 0
	svc = r.update(t, svc)
	i.holds(t, svc, "10.96.0.1")
}

func TestDualStack(t *testing.T) {
	i, r := run(t, dual)
	svc := r.create(t, web("web", func(s *corev1.Service) {
		s.Spec.IpFamilyPolicy = corev1.IPFamilyPolicy_IP_FAMILY_POLICY_REQUIRE_DUAL_STACK
	}))
	first := svc.GetSpec().GetClusterIp()
	got := svc.GetSpec().GetClusterIps()
	if len(got) != 2 || got[0] != first || !strings.HasPrefix(got[0], "10.96.0.") || !strings.HasPrefix(got[1], "fd00:96::") {
		t.Errorf("virtual IPs %v, first %s", got, first)
	}
	svc.Spec.IpFamilyPolicy = corev1.IPFamilyPolicy_IP_FAMILY_POLICY_SINGLE_STACK
	svc = r.update(t, svc)
	i.holds(t, svc, first)
	svc.Spec.IpFamilyPolicy = corev1.IPFamilyPolicy_IP_FAMILY_POLICY_PREFER_DUAL_STACK
	svc = r.update(t, svc)
	i.holds(t, svc, first, svc.GetSpec().GetClusterIps()[1])
}

// TestOneOfManyWins creates one service many times concurrently. One create must succeed, and the
// values of the others must be free again.
func TestOneOfManyWins(t *testing.T) {
	i, r := run(t)
	var wg sync.WaitGroup
	won := make(chan *corev1.Service, 8)
	for range 8 {
		wg.Go(func() {
			answer, err := r.services.CreateService(within(t), &registryv1.CreateServiceRequest{Service: web("web")})
			switch {
			case err == nil:
				won <- answer.GetService()
			case !apierr.IsAlreadyExists(err):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	close(won)
	winner := <-won
	if winner == nil || <-won != nil {
		t.Fatalf("not exactly one create succeeded")
	}
	i.holds(t, winner, winner.GetSpec().GetClusterIp())
	if n := i.allocator.Used(); n != 1 {
		t.Errorf("%d values are allocated", n)
	}
}

// TestRacingUpdatesKeepTheirValues lets many updates of one version request node ports. The values
// of the successful update must stay allocated.
func TestRacingUpdatesKeepTheirValues(t *testing.T) {
	i, r := run(t)
	svc := r.create(t, web("web"))
	svc.Spec.Type = typeNodePort
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			_, err := r.services.UpdateService(within(t), &registryv1.UpdateServiceRequest{Service: svc.CloneVT()})
			if err != nil && !apierr.IsConflict(err) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got, err := r.services.GetService(context.WithoutCancel(within(t)), &registryv1.GetServiceRequest{Name: "web"})
	if err != nil {
		t.Fatal(err)
	}
	i.holds(t, got.GetService(), "10.96.0.1", fmt.Sprint(got.GetService().GetSpec().GetPorts()[0].GetNodePort()))
}
