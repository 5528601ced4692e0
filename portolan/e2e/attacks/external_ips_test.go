package attacks

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/client"
	"portolan.dev/services/kit/identity"
)

// newCapture returns a service with external IPs.
func newCapture(namespace string, ips ...string) *corev1.Service {
	return &corev1.Service{
		Metadata: &corev1.ObjectMeta{Name: "capture", Namespace: namespace},
		Spec:     &corev1.ServiceSpec{Ports: []*corev1.ServicePort{{Port: 53}}, ExternalIps: ips},
	}
}

// refuseExternalIP adds an external IP by every way of writing, each of which must be refused with a
// reason.
func refuseExternalIP(t *testing.T, i *labtest.Installation, ip, reason string) {
	t.Helper()
	services := registryv1.NewServiceServiceClient(i.Conn)
	for way, write := range map[string]func(ctx context.Context) error{
		"create": func(ctx context.Context) error {
			_, err := services.CreateService(ctx, &registryv1.CreateServiceRequest{Service: newCapture("a", ip)})
			return err
		},
		"update": func(ctx context.Context) error {
			_, err := services.UpdateService(ctx, &registryv1.UpdateServiceRequest{Service: newCapture("default", ip)})
			return err
		},
		"apply": func(ctx context.Context) error {
			_, err := client.New(i.Conn).Apply(ctx, newCapture("default", ip), false)
			return err
		},
		"apply of a new one": func(ctx context.Context) error {
			_, err := client.New(i.Conn).Apply(ctx, newCapture("a", ip), false)
			return err
		},
	} {
		if err := write(t.Context()); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s of external IP %s: %v, want %q", way, ip, err, reason)
		}
	}
}

// TestExternalIPCannotCaptureForeignAddresses adds the address of a machine that is no node, such
// as a public name server, and special addresses to a service. Nodes would send their traffic for
// them to the service. In the second installation the operator allows all addresses.
func TestExternalIPCannotCaptureForeignAddresses(t *testing.T) {
	t.Run("default", func(t *testing.T) {
		i := captureAddresses(t, "")
		for _, ip := range []string{"9.9.9.9", "2001:db8::1", "10.1.2.3", "0.1.2.3"} {
			refuseExternalIP(t, i, ip, "external-ip-ranges has none")
		}
		balanceAsBoundOperator(t, i)
	})
	t.Run("all addresses", func(t *testing.T) { captureAddresses(t, "0.0.0.0/0,::/0") })
}

// captureAddresses requests special addresses, and addresses of the cluster, as external IPs in an
// installation that allows external IPs in the given ranges.
func captureAddresses(t *testing.T, allowed string) *labtest.Installation {
	t.Helper()
	i := labtest.Install(t, labtest.Options{
		Secured: true, Nodes: []labtest.NodeOptions{{Name: "n1", ProxyMode: "userspace"}},
		Flags: map[string][]string{"registry": {"-external-ip-ranges", allowed, "-pod-cidr", "10.244.0.0/16"}},
	})
	newNamespaces(t, i.Conn)
	if _, err := registryv1.NewServiceServiceClient(i.Conn).CreateService(t.Context(), &registryv1.CreateServiceRequest{Service: newCapture("default")}); err != nil {
		t.Fatal(err)
	}
	for ip, reason := range map[string]string{
		"0.0.0.0": "unspecified", "::": "unspecified", "127.0.0.1": "loopback", "127.0.0.77": "loopback", "::1": "loopback",
		"169.254.169.254": "link-local", "fe80::1": "link-local", "224.0.0.1": "link-local multicast", "ff02::1": "link-local multicast",
		"239.1.2.3": "no unicast address", "ff0e::1": "no unicast address", "255.255.255.255": "no unicast address",
		"::ffff:9.9.9.9": "must be an IPv4 address", "10.96.0.7": "range of the virtual IPs", "10.244.0.7": "range of the pods",
		i.Nodes[0].Addresses[0].String(): "address of a node",
	} {
		refuseExternalIP(t, i, ip, reason)
	}
	return i
}

// balanceAsBoundOperator reports foreign addresses as addresses of a load balancer, with the certificate of
// an operator of one namespace. This is the other half of CVE-2020-8554.
func balanceAsBoundOperator(t *testing.T, i *labtest.Installation) {
	t.Helper()
	services := registryv1.NewServiceServiceClient(i.DialAs(i.Issue("operator/a", time.Hour), identity.Registry, i.RegistryAt()))
	service := newCapture("a")
	service.Spec.Type = corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER
	ingress := &corev1.ServiceStatus{LoadBalancer: &corev1.LoadBalancerStatus{Ingress: []*corev1.LoadBalancerIngress{{Ip: "9.9.9.9"}}}}
	service.Status = ingress
	if created, err := services.CreateService(t.Context(), &registryv1.CreateServiceRequest{Service: service}); err == nil &&
		len(created.GetService().GetStatus().GetLoadBalancer().GetIngress()) > 0 {
		t.Errorf("created with a load balancer at %v", created.GetService().GetStatus())
	}
	service.Status = nil
	if _, err := services.CreateService(t.Context(), &registryv1.CreateServiceRequest{Service: service}); err != nil && status.Code(err) != codes.AlreadyExists {
		t.Fatal(err)
	}
	service.Status = ingress
	_, err := services.UpdateServiceStatus(t.Context(), &registryv1.UpdateServiceStatusRequest{Service: service})
	if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "address of a load balancer") {
		t.Errorf("an operator of a namespace reports the address of a load balancer: %v", err)
	}
	ingress.LoadBalancer.Ingress[0].IpMode = corev1.IPMode_IP_MODE_PROXY
	if _, err := services.UpdateServiceStatus(t.Context(), &registryv1.UpdateServiceStatusRequest{Service: service}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("with ipMode Proxy: %v", err)
	}
	if _, err := registryv1.NewServiceServiceClient(i.Conn).UpdateServiceStatus(t.Context(), &registryv1.UpdateServiceStatusRequest{Service: service}); err != nil {
		t.Fatal(err)
	}
	ingress.LoadBalancer.Ingress[0].IpMode = corev1.IPMode_IP_MODE_VIP
	if _, err := services.UpdateServiceStatus(t.Context(), &registryv1.UpdateServiceStatusRequest{Service: service}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("the provider's address for all nodes: %v", err)
	}
}
