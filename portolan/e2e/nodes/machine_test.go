package nodes

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"

	"portolan.dev/nodeagent/kerneltest/topology"
)

var (
	virtual = netip.MustParsePrefix("10.96.0.0/16")
	podCIDR = netip.MustParsePrefix("10.244.0.0/16")
)

// machine is a node in a network namespace, with an agent that forwards by nftables and a pod. It
// reaches other machines only through a router. Its agent reaches registry and NATS through ports
// of its own loopback.
type machine struct {
	*topology.Namespace
	name  string
	pod   netip.AddrPort
	agent *exec.Cmd
	ended chan struct{}
}

// machines starts nodes with these names around a router.
func (c *cluster) machines(names ...string) map[string]*machine {
	c.Helper()
	router := topology.New(c.T, "router")
	router.Sysctl(c.T, "net.ipv4.ip_forward", "1")
	all := map[string]*machine{}
	for i, name := range names {
		m := &machine{
			Namespace: topology.New(c.T, name), name: name, ended: make(chan struct{}),
			pod: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, byte(i + 1), 10}), 8080),
		}
		gateway, node := netip.AddrFrom4([4]byte{10, 90, byte(i + 1), 1}), netip.AddrFrom4([4]byte{10, 90, byte(i + 1), 2})
		topology.Connect(c.T, router, m.Namespace, []netip.Prefix{netip.PrefixFrom(gateway, 24)}, []netip.Prefix{netip.PrefixFrom(node, 24)})
		m.Route(c.T, netip.MustParsePrefix("0.0.0.0/0"), gateway)
		pods := netip.PrefixFrom(m.pod.Addr(), 24).Masked()
		router.Route(c.T, pods, node)
		m.Local(c.T, pods)
		m.serve(c.T, m.pod.String(), func(conn net.Conn) { io.WriteString(conn, name) }) //nolint:errcheck // the client notices
		c.startMachine(m)
		all[name] = m
	}
	return all
}

// listen opens a TCP port in the namespace.
func (m *machine) listen(t *testing.T, addr string) net.Listener {
	t.Helper()
	var lis net.Listener
	if err := m.Do(func() (err error) { lis, err = net.Listen("tcp", addr); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lis.Close() })
	return lis
}

// serve answers connections to an address of the namespace, and closes them.
func (m *machine) serve(t *testing.T, addr string, answer func(net.Conn)) string {
	t.Helper()
	lis := m.listen(t, addr)
	go func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				answer(conn)
			}()
		}
	}()
	return lis.Addr().String()
}

// forward opens a port of the namespace's loopback that leads to an address of the machine on which
// the test runs.
func (m *machine) forward(t *testing.T, to string) string {
	t.Helper()
	return m.serve(t, "127.0.0.1:0", func(conn net.Conn) {
		up, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		defer up.Close()
		go func() {
			defer up.Close()  // so that both directions end
			io.Copy(up, conn) //nolint:errcheck // a connection that ended
		}()
		io.Copy(conn, up) //nolint:errcheck // a connection that ended
	})
}

// startMachine starts the agent of a machine in a process of its own.
func (c *cluster) startMachine(m *machine) {
	c.Helper()
	m.agent = exec.Command("/proc/self/exe",
		"-addr=127.0.0.1:7404", "-http-addr=127.0.0.1:7504", "-node-name="+m.name, "-data-dir="+c.TempDir(), "-log-level=error",
		"-registry="+m.forward(c.T, c.directory.address("registry")), "-nats-url=nats://"+m.forward(c.T, strings.TrimPrefix(c.nats, "nats://")),
		"-proxy-mode=nftables", "-strict", "-service-cidr="+virtual.String(), "-pod-cidr="+podCIDR.String())
	m.agent.Env = append(os.Environ(), agentEnv+"=1")
	m.agent.Stdout, m.agent.Stderr = os.Stdout, os.Stderr
	if err := m.Do(m.agent.Start); err != nil {
		c.Fatal(err)
	}
	go func() {
		m.agent.Wait() //nolint:errcheck // it is killed
		close(m.ended)
	}()
	c.Cleanup(func() { m.kill() })
}

// kill ends the agent without warning.
func (m *machine) kill() {
	m.agent.Process.Kill() //nolint:errcheck // it may be gone
	<-m.ended
}

// podManifest returns the manifest of the machine's pod, which has a readiness probe.
func (m *machine) podManifest() string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata: {name: web-%[1]s, labels: {app: web}}
spec:
  nodeName: %[1]s
  containers:
  - name: web
    ports: [{containerPort: %[2]d}]
    readinessProbe: {tcpSocket: {port: %[2]d}, periodSeconds: 1}
`, m.name, m.pod.Port())
}

// runs reports to the registry that the pod of a machine runs.
func (c *cluster) runs(m *machine) {
	c.Helper()
	conn, err := c.directory.Dial("registry", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		c.Fatal(err)
	}
	defer conn.Close()
	pods := registryv1.NewPodServiceClient(conn)
	got, err := pods.GetPod(c.Context(), &registryv1.GetPodRequest{Namespace: "default", Name: "web-" + m.name})
	if err != nil {
		c.Fatal(err)
	}
	pod, ip := got.GetPod(), m.pod.Addr().String()
	pod.Metadata.ResourceVersion = 0 // the agent writes conditions in the meantime
	pod.Status = &corev1.PodStatus{Phase: corev1.PodPhase_POD_PHASE_RUNNING, PodIp: ip, PodIps: []string{ip}}
	if _, err := pods.UpdatePodStatus(c.Context(), &registryv1.UpdatePodStatusRequest{Pod: pod}); err != nil {
		c.Fatal(err)
	}
}
