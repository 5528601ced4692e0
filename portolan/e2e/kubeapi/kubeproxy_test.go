package kubeapi

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/services/kit/kittest"
)

// proxied is a service with one endpoint, and a node for kube-proxy.
var proxied = []struct{ path, body string }{
	{"/api/v1/nodes", `{"metadata":{"name":"n1"}}`},
	{services, `{"metadata":{"name":"web"},"spec":{"clusterIP":"10.96.0.11","ports":[{"name":"http","port":80}]}}`},
	{"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", `{"metadata":{"name":"web-1","labels":{"kubernetes.io/service-name":"web"}},
		"addressType":"IPv4","endpoints":[{"addresses":["10.64.0.1"]}],"ports":[{"name":"http","port":8080}]}`},
}

// limitsOfTheKernel are the settings with which kube-proxy does not change the limits of connection
// tracking, because these apply to the whole machine, and the test owns only a network namespace.
const limitsOfTheKernel = "conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}\n"

// TestKubeProxy has kube-proxy follow the services of Portolan. Connections to a cluster IP must reach the
// endpoints of the service.
func TestKubeProxy(t *testing.T) {
	path := os.Getenv("PORTOLAN_TEST_KUBE_PROXY")
	if path == "" {
		t.Skip("allowed: kube-proxy takes too long to build for every test run; PORTOLAN_TEST_KUBE_PROXY is the path of one, and then this test needs root and a kernel with nftables")
	}
	i := install(t, true)
	for _, o := range proxied {
		i.must("POST", o.path, o.body)
	}
	i.must("PATCH", "/api/v1/nodes/n1/status", `{"status":{"addresses":[{"type":"InternalIP","address":"172.31.1.1"}]}}`)
	node, pods := machines(t)
	serveAddress(t, pods, "10.64.0.1:8080")
	serveAddress(t, pods, "10.64.0.2:8080")
	relay := newRelay(t, i.address, func(addr string) (listener net.Listener, err error) {
		return listener, node.Do(func() error {
			listener, err = net.Listen("tcp", addr)
			return err
		})
	})
	config := configFile(t, "kube-proxy.yaml", "web-1", "n1", "/etc/portolan/kubeconfig", i.kubeconfig("viewer", "https://"+relay.addr),
		"mode:", limitsOfTheKernel+"mode:")
	start(t, exec.Command(path, "--config="+config), node.Do)

	reaches(t, node, "10.64.0.1:8080")
	i.must("PATCH", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/web-1", `{"endpoints":[{"addresses":["10.64.0.2"]}]}`)
	reaches(t, node, "10.64.0.2:8080")
	rules := ruleset(t, node)
	for _, has := range []string{"10.96.0.11 . tcp . 80", "10.64.0.2"} {
		if !strings.Contains(rules, has) {
			t.Errorf("no %q in\n%s", has, rules)
		}
	}
	i.must("DELETE", services+"/web", "")
	kittest.Eventually(t, "the end of the rules of the service", func() error {
		if rules := ruleset(t, node); strings.Contains(rules, "10.96.0.11") {
			return errors.New(rules)
		}
		return nil
	})
}

// machines makes a node, and a machine with all addresses of pods.
func machines(t *testing.T) (node, pods *topology.Namespace) {
	t.Helper()
	node, pods = topology.New(t, "node"), topology.New(t, "pods")
	own, theirs := netip.MustParsePrefix("172.31.1.1/24"), netip.MustParsePrefix("172.31.1.2/24")
	topology.Connect(t, node, pods, []netip.Prefix{own}, []netip.Prefix{theirs})
	pods.Local(t, netip.MustParsePrefix("10.64.0.0/16"))
	node.Route(t, netip.MustParsePrefix("0.0.0.0/0"), theirs.Addr())
	pods.Route(t, netip.MustParsePrefix("0.0.0.0/0"), own.Addr())
	return node, pods
}

// serveAddress answers connections to an address with the address.
func serveAddress(t *testing.T, in *topology.Namespace, addr string) {
	t.Helper()
	var listener net.Listener
	if err := in.Do(func() (err error) {
		listener, err = net.Listen("tcp", addr)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, addr) // the client sees whether it is all
			_ = conn.Close()
		}
	}()
}

// reaches waits until connections from the node to the cluster IP reach an endpoint.
func reaches(t *testing.T, node *topology.Namespace, endpoint string) {
	t.Helper()
	kittest.Eventually(t, "a connection to "+endpoint, func() error {
		return node.Do(func() error {
			conn, err := net.DialTimeout("tcp", "10.96.0.11:80", time.Second)
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			answer, err := io.ReadAll(conn)
			if err == nil && string(answer) != endpoint {
				err = fmt.Errorf("%s answered", answer)
			}
			return err
		})
	})
}

// ruleset returns the rules of the node's kernel.
func ruleset(t *testing.T, node *topology.Namespace) string {
	t.Helper()
	var rules []byte
	if err := node.Do(func() (err error) {
		rules, err = exec.Command("nft", "list", "ruleset").CombinedOutput()
		return err
	}); err != nil {
		t.Fatalf("%v: %s", err, rules)
	}
	return string(rules)
}
