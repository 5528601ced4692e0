package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/kit/rpc"
)

// fakeRegistry has some services and nodes.
type fakeRegistry struct {
	registryv1.UnimplementedServiceServiceServer
	registryv1.UnimplementedNodeServiceServer
	services []*corev1.Service
	nodes    []*corev1.Node
}

func (f *fakeRegistry) ListServices(_ context.Context, req *registryv1.ListServicesRequest) (*registryv1.ListServicesResponse, error) {
	resp := &registryv1.ListServicesResponse{}
	for _, svc := range f.services {
		if req.GetNamespace() == "" || req.GetNamespace() == svc.GetMetadata().GetNamespace() {
			resp.Services = append(resp.Services, svc)
		}
	}
	return resp, nil
}

func (f *fakeRegistry) GetService(_ context.Context, req *registryv1.GetServiceRequest) (*registryv1.GetServiceResponse, error) {
	for _, svc := range f.services {
		if svc.GetMetadata().GetNamespace() == req.GetNamespace() && svc.GetMetadata().GetName() == req.GetName() {
			return &registryv1.GetServiceResponse{Service: svc}, nil
		}
	}
	return nil, apierr.NotFound("Service", req.GetNamespace()+"/"+req.GetName())
}

func (f *fakeRegistry) ListNodes(context.Context, *registryv1.ListNodesRequest) (*registryv1.ListNodesResponse, error) {
	return &registryv1.ListNodesResponse{Nodes: f.nodes}, nil
}

// serveRegistry serves a registry and returns its address.
func serveRegistry(t *testing.T, f *fakeRegistry) string {
	t.Helper()
	log := kittest.Logger(t)
	server, lis := rpc.NewServer(rpc.ServerOptions{Log: log, Metrics: obs.NewMetrics(), Health: health.New(log)}), kittest.Listen(t)
	registryv1.RegisterServiceServiceServer(server, f)
	registryv1.RegisterNodeServiceServer(server, f)
	kittest.Run(t, "registry", func(ctx context.Context) error { return server.Serve(ctx, lis) })
	return lis.Addr().String()
}

// shop returns a registry with services of several types.
func shop() *fakeRegistry {
	service := func(namespace, name string, typ corev1.ServiceType, ports ...*corev1.ServicePort) *corev1.Service {
		return &corev1.Service{
			Metadata: &corev1.ObjectMeta{Namespace: namespace, Name: name, Uid: "u-" + name},
			Spec:     &corev1.ServiceSpec{Type: typ, Ports: ports, IpFamilies: []corev1.IPFamily{corev1.IPFamily_IP_FAMILY_IPV4}},
		}
	}
	web := service("default", "web", corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, &corev1.ServicePort{Port: 80, NodePort: 30080, Protocol: corev1.Protocol_PROTOCOL_TCP})
	web.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8", "192.0.2.0/24"}
	web.Status = &corev1.ServiceStatus{LoadBalancer: &corev1.LoadBalancerStatus{Ingress: []*corev1.LoadBalancerIngress{{Ip: "203.0.113.7", IpMode: corev1.IPMode_IP_MODE_VIP}}}}
	return &fakeRegistry{
		services: []*corev1.Service{
			service("default", "direct", corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, &corev1.ServicePort{Port: 80, Protocol: corev1.Protocol_PROTOCOL_TCP}),
			service("default", "inside", corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP),
			web,
			service("shop", "dns", corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, &corev1.ServicePort{Port: 53, NodePort: 30053, Protocol: corev1.Protocol_PROTOCOL_UDP}),
		},
		nodes: []*corev1.Node{{
			Metadata: &corev1.ObjectMeta{Name: "n1"},
			Status:   &corev1.NodeStatus{Addresses: []*corev1.NodeAddress{{Type: "InternalIP", Address: "198.51.100.1"}}},
		}},
	}
}

// atRegistry runs a command with the address of a registry. It returns lines without aligning spaces.
func atRegistry(t *testing.T, address string, args ...string) (code int, out, errOut string) {
	t.Helper()
	code, out, errOut = run(t, "", append([]string{"--server", address}, args...)...)
	var lines []string
	for line := range strings.Lines(out) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return code, strings.Join(lines, "\n"), errOut
}

// TestLBRulesAreShown compares the output of get lbrules word by word.
func TestLBRulesAreShown(t *testing.T) {
	address := serveRegistry(t, shop())
	const (
		header = "SERVICE RULE PROTOCOL DESTINATION PORTS SOURCE DESCRIPTION\n"
		web    = `web health TCP nodes 30080 198.51.100.1/32 kubernetes.io/rule/nlb/health=auweb
web client TCP nodes 30080 10.0.0.0/8,192.0.2.0/24 kubernetes.io/rule/nlb/client=auweb
web client TCP 203.0.113.7 80 10.0.0.0/8,192.0.2.0/24 kubernetes.io/rule/nlb/client=auweb
web mtu ICMP nodes type 3 code 4 10.0.0.0/8,192.0.2.0/24 kubernetes.io/rule/nlb/mtu=auweb
web mtu ICMP 203.0.113.7 type 3 code 4 10.0.0.0/8,192.0.2.0/24 kubernetes.io/rule/nlb/mtu=auweb`
		dns = `dns client UDP nodes 30053 0.0.0.0/0 kubernetes.io/rule/nlb/client=audns
dns mtu ICMP nodes type 3 code 4 0.0.0.0/0 kubernetes.io/rule/nlb/mtu=audns`
	)
	inNamespace := func(name, lines string) string {
		return name + " " + strings.ReplaceAll(lines, "\n", "\n"+name+" ")
	}
	for _, c := range []struct {
		args        []string
		code        int
		out, errOut string
	}{
		{args: []string{"get", "lbrules", "web"}, out: header + web},
		{args: []string{"get", "lbrules"}, out: header + web, errOut: "Service default/direct needs no rules yet, because it has neither node ports nor an address that nodes or edges serve: lbctl, which"},
		{args: []string{"get", "lbrule", "dns", "-n", "shop"}, out: header + dns},
		{args: []string{"get", "lbrules", "-A", "-l", "a=b"}, out: "NAMESPACE " + header + inNamespace("default", web) + "\n" + inNamespace("shop", dns), errOut: "default/direct"},
		{args: []string{"get", "lbrules", "-n", "empty"}, errOut: "No services of type LoadBalancer found in namespace empty.\n"},
		{args: []string{"get", "lbrules", "direct"}, errOut: "needs no rules yet"},
		{args: []string{"get", "lbrules", "web", "inside"}, code: 1, errOut: "service default/inside is of type ClusterIP: only services of type LoadBalancer need these rules"},
		{args: []string{"get", "lbrules", "nothing"}, code: 1, errOut: "nothing"},
		{args: []string{"get", "lbrules", "web", "-A"}, code: 2, errOut: "leave out -A"},
		{args: []string{"get", "lbrules", "web", "-l", "a=b"}, code: 2, errOut: "not both"},
		{args: []string{"get", "lbrules", "-o", "wide"}, code: 2, errOut: "outputs are table, yaml, json"},
		{args: []string{"get", "lbrules", "--lb-networks", "everywhere"}, code: 2, errOut: "is no network"},
	} {
		code, out, errOut := atRegistry(t, address, c.args...)
		if code != c.code || out != c.out || c.errOut == "" && errOut != "" || !strings.Contains(errOut, c.errOut) {
			t.Errorf("%q: exit code %d\n%s\n%s\nwant %d\n%s\n%s", c.args, code, out, errOut, c.code, c.out, c.errOut)
		}
	}
}

// TestLBRulesForPrograms checks the forms for other programs.
func TestLBRulesForPrograms(t *testing.T) {
	address := serveRegistry(t, shop())
	_, out, _ := atRegistry(t, address, "get", "lbrules", "dns", "-n", "shop", "-o", "json", "--lb-networks", "192.0.2.0/28")
	var rules []map[string]any
	if err := json.Unmarshal([]byte(out), &rules); err != nil || len(rules) != 2 {
		t.Fatalf("%v:\n%s", err, out)
	}
	if r := rules[0]; r["namespace"] != "shop" || r["rule"] != "client" || r["family"] != "IPv4" || r["destination"] != "nodes" {
		t.Errorf("got %v", r)
	}
	if _, out, _ := atRegistry(t, address, "get", "lbrules", "-n", "empty", "-o", "json"); out != "[]" {
		t.Errorf("no rules are %q, want an empty list", out)
	}
	if _, out, _ := atRegistry(t, address, "get", "lbrules", "web", "-o", "yaml", "--lb-networks", "192.0.2.0/29,192.0.2.8/29"); !strings.Contains(out, "- 192.0.2.0/28") || !strings.Contains(out, "protocol: ICMP") {
		t.Errorf("got\n%s", out)
	}
}

// TestLBRulesAreCompleted checks that the shell completes lbrules and the names of services that are
// not given yet.
func TestLBRulesAreCompleted(t *testing.T) {
	address := serveRegistry(t, shop())
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"get", "lbr"}, "lbrules"},
		{[]string{"get", "lbrules", "web", ""}, "direct\ninside\n:4"},
	} {
		args := append([]string{"__complete"}, c.words...)
		if _, out, _ := run(t, "", append([]string{"--server", address}, args...)...); !strings.HasPrefix(out, c.want) {
			t.Errorf("%q is completed by\n%s\nwant\n%s", c.words, out, c.want)
		}
	}
}
