package nodes

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"portolan.dev/allocator"
	"portolan.dev/nodeagent"
	"portolan.dev/nodeagent/program"
	"portolan.dev/portolan/internal/cli"
	"portolan.dev/registry"
	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
)

// directory is a TCP network in which daemons have names, so that two of them can refer to each
// other before either has a port.
type directory struct {
	mu    sync.Mutex
	names map[string]string // address of each name
}

// Listen implements rpc.Network.
func (d *directory) Listen(addr string) (net.Listener, error) {
	lis, err := rpc.TCP().Listen("127.0.0.1:0")
	if err == nil {
		d.mu.Lock()
		d.names[addr] = lis.Addr().String()
		d.mu.Unlock()
	}
	return lis, err
}

func (d *directory) address(name string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.names[name]
}

// Dial implements rpc.Network.
func (d *directory) Dial(target string, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	return rpc.TCP().Dial("passthrough:///"+target, append(opts, grpc.WithContextDialer(func(ctx context.Context, name string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "tcp", d.address(name))
	}))...)
}

// cluster is an installation of several nodes.
type cluster struct {
	*testing.T
	directory *directory
	nats      string
	cidr      netip.Prefix
	vips      byte // number of virtual IPs used so far
	agents    map[string]*agent
}

// agent is one node agent.
type agent struct {
	cfg  nodeagent.Config
	stop func()
}

// start starts a registry, an allocator and nodes; the zone of node n1 is z1, and so on.
func start(t *testing.T, nodes int) *cluster {
	t.Helper()
	c := control(t, netip.PrefixFrom(netip.AddrFrom4([4]byte{127, 20 + byte(rand.N(70)), byte(rand.N(256)), 0}), 24))
	for n := range nodes {
		name := fmt.Sprintf("n%d", n+1)
		cfg := nodeagent.Config{}
		config.Defaults(&cfg)
		cfg.Common, cfg.Registry, cfg.NodeName, cfg.ProxyMode = c.common(name), "registry", name, "userspace"
		cfg.NodeAddresses = []string{fmt.Sprintf("127.0.0.%d", n+1)}
		cfg.NodeLabels = []string{"topology.kubernetes.io/zone=z" + name[1:]}
		cfg.DataDir, cfg.HeartbeatInterval = t.TempDir(), 100*time.Millisecond
		c.agents[name] = &agent{cfg: cfg}
		c.startAgent(name)
	}
	return c
}

// control starts a registry and an allocator that gives services addresses of a range. change changes the
// configuration of the registry.
func control(t *testing.T, cidr netip.Prefix, change ...func(*registry.Config)) *cluster {
	t.Helper()
	_, url := kittest.NATS(t)
	c := &cluster{
		T: t, directory: &directory{names: map[string]string{}}, nats: url, agents: map[string]*agent{}, cidr: cidr,
	}
	var ac allocator.Config
	config.Defaults(&ac)
	ac.Common, ac.Registry, ac.DataDir, ac.ServiceCIDR = c.common("allocator"), "registry", filepath.Join(t.TempDir(), "allocator"), []netip.Prefix{c.cidr}
	run(c, "allocator", ac, allocator.New)
	var rc registry.Config
	config.Defaults(&rc)
	rc.Common, rc.Allocator, rc.Store = c.common("registry"), "allocator", "sqlite:"+filepath.Join(t.TempDir(), "registry")
	rc.ServiceCIDR, rc.LoopbackEndpoints = []netip.Prefix{c.cidr}, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	// No test depends on the timeout, because they wait for the output of the command line.
	rc.HeartbeatTimeout = 3 * time.Second
	for _, fn := range change {
		fn(&rc)
	}
	run(c, "registry", rc, registry.New)
	return c
}

func (c *cluster) common(name string) daemon.Common {
	var common daemon.Common
	config.Defaults(&common)
	common.Addr = name
	return common
}

// run builds a daemon and runs it until the test ends, or stop is called.
func run[C any, D app.Daemon](c *cluster, name string, cfg C, build func(context.Context, C, app.Host) (D, error)) (stop func()) {
	c.Helper()
	d, err := build(c.Context(), cfg, kittest.Host(c.T, c.directory, c.nats))
	if err != nil {
		c.Fatalf("%s: %v", name, err)
	}
	return kittest.Run(c.T, name, d.Run)
}

func (c *cluster) startAgent(name string) {
	c.Helper()
	a := c.agents[name]
	a.stop = run(c, name, a.cfg, program.New)
}

// portolan runs a command of the command line.
func (c *cluster) portolan(stdin string, args ...string) (code int, out, errOut string) {
	c.Helper()
	var o, e bytes.Buffer
	flags := []string{"--server", c.directory.address("registry")}
	if args[0] == "explain" { // no process listens on port 1: the chain is checked without these two
		flags = append(flags, "--allocator", c.directory.address("allocator"), "--endpointctl", "127.0.0.1:1", "--dnssvc", "127.0.0.1:1")
	}
	code = cli.Main(c.Context(), append(args[:len(args):len(args)], flags...), strings.NewReader(stdin), &o, &e)
	return code, o.String(), e.String()
}

// expect repeats a command until it ends with a code and its output has all these words.
func (c *cluster) expect(code int, args []string, words ...string) {
	c.Helper()
	kittest.Eventually(c.T, "portolan "+strings.Join(args, " "), func() error {
		got, out, errOut := c.portolan("", args...)
		for _, word := range words {
			if !strings.Contains(out+errOut, word) {
				return fmt.Errorf("exit code %d, nothing of %q in:\n%s%s", got, word, out, errOut)
			}
		}
		if got != code {
			return fmt.Errorf("exit code %d, want %d:\n%s%s", got, code, out, errOut)
		}
		return nil
	})
}

// apply applies a manifest, which must succeed. It retries, because right after the start the
// allocator may not be ready.
func (c *cluster) apply(manifest string) {
	c.Helper()
	kittest.Eventually(c.T, "the manifest to be taken", func() error {
		if code, out, errOut := c.portolan(manifest, "apply", "-f", "-"); code != 0 {
			return fmt.Errorf("%s%s", out, errOut)
		}
		return nil
	})
}

// free returns a virtual IP of the cluster with a port that no process uses there.
func (c *cluster) free() netip.AddrPort {
	c.Helper()
	addr := c.cidr.Addr().As4()
	c.vips++ // from the lower end of the range, which is for chosen addresses
	addr[3] = c.vips
	lis, err := net.Listen("tcp", netip.AddrPortFrom(netip.AddrFrom4(addr), 0).String())
	if err != nil {
		c.Fatal(err)
	}
	defer lis.Close()
	return lis.Addr().(*net.TCPAddr).AddrPort()
}

// service returns the manifest of a service with one backend, on a node.
func service(name string, vip netip.AddrPort, node string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec:
  clusterIP: %[2]s
  internalTrafficPolicy: Local
  ports: [{port: %[3]d}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s-1, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{port: 9}]
endpoints: [{addresses: [127.0.0.1], nodeName: %[4]s}]
`, name, vip.Addr(), vip.Port(), node)
}
