package labtest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"google.golang.org/grpc"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/services/client"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
)

// ports are the ports of the daemons' APIs. The port of metrics and health is higher by 100.
var ports = map[string]int{"registry": 7400, "allocator": 7401, "endpointctl": 7402, "dnssvc": 7403, "nodeagent": 7404}

// Options are the settings of an installation.
type Options struct {
	// Store is the registry's store. Default: SQLite.
	Store string
	// Nodes are the nodes, each with an agent.
	Nodes []NodeOptions
	// Secured makes every connection mutual TLS, with certificates as portolan certs makes them.
	Secured bool
	// NATSIntruder is a role with the right to publish and subscribe to every subject of NATS. It stands for
	// an attacker who has taken over the server. Default: none.
	NATSIntruder string
	// Lifetime is the lifetime of the certificates of daemons, also of renewed ones. Default: longer
	// than any test.
	Lifetime time.Duration
	// Flags are additional flags of each daemon. They override its other flags.
	Flags map[string][]string
}

// NodeOptions are the settings of a node.
type NodeOptions struct {
	Name, Zone, ProxyMode string
}

// Installation is a running installation.
type Installation struct {
	testing.TB
	*Network
	// Registry is a client of the registry, on Conn.
	Registry *client.Client
	Conn     *grpc.ClientConn
	Nodes    []*Node
	// Outside is the namespace of clients that are neither pods nor nodes. All addresses of its
	// ranges are local to it.
	Outside *topology.Namespace
	// Processes are the daemons of the control plane, by name.
	Processes map[string]*Process
	// Certs is the folder of the authority and its certificates, if the installation is secured.
	Certs    string
	options  Options
	commands map[string][]string // flags of the daemons of the control plane
	replicas int                 // replicas of the registry besides the first
	nats     *server.Server
	natsDir  string // of its stream
}

// Node is a machine with an agent.
type Node struct {
	Name, Zone, ProxyMode string
	Namespace             *topology.Namespace
	// Addresses of the node and the ranges of its pods, first IPv4, then IPv6.
	Addresses [2]netip.Addr
	PodRanges [2]netip.Prefix
	dataDir   string
	Agent     nodeagentv1.NodeAgentServiceClient
	Process   *Process
}

// Install starts an installation and waits until all daemons are ready.
func Install(t testing.TB, o Options) *Installation {
	t.Helper()
	Need(t)
	i := &Installation{TB: t, Network: NewNetwork(t), Processes: map[string]*Process{}, options: o, commands: map[string][]string{}}
	i.Outside, _ = i.Attach("outside", outside[:]...)
	for _, p := range outside {
		i.Outside.Local(t, p)
	}
	if o.Secured {
		i.issue()
	}
	i.startNATS()
	for _, daemon := range []string{"allocator", "registry", "endpointctl", "dnssvc"} {
		i.commands[daemon] = i.flags(daemon, control[0])
		i.Processes[daemon] = Start(t, daemon, daemon, i.Hub, i.commands[daemon])
	}
	for n, options := range o.Nodes {
		i.addNode(n+1, options)
	}
	i.Conn = i.dial(identity.Registry, i.RegistryAt())
	i.Registry = client.New(i.Conn)
	for daemon := range i.Processes {
		i.awaitReady(daemon, control[0], ports[daemon]+100)
	}
	for _, n := range i.Nodes {
		i.awaitReady(n.Name, n.Addresses[0], ports["nodeagent"]+100)
		i.awaitRegistered(n)
	}
	return i
}

func (i *Installation) startNATS() {
	i.Helper()
	dir, err := os.MkdirTemp("", "portolan-lab-")
	if err != nil {
		i.Fatal(err)
	}
	// JetStream has writers that a stopped server does not wait for.
	i.Cleanup(func() { kittest.Eventually(i, "the removal of "+dir, func() error { return os.RemoveAll(dir) }) })
	i.natsDir = dir
	if i.nats, err = server.NewServer(i.natsOptions()); err != nil {
		i.Fatal(err)
	}
	i.nats.Start()
	i.Cleanup(i.StopNATS)
	if !i.nats.ReadyForConnections(patience) {
		i.Fatal("nats does not start")
	}
}

// StopNATS stops the NATS server.
func (i *Installation) StopNATS() { kittest.StopNATS(i.nats) }

// natsOptions returns the options of the NATS server.
func (i *Installation) natsOptions() *server.Options {
	i.Helper()
	options := &server.Options{
		Host: control[0].String(), Port: 4222, JetStream: true, StoreDir: i.natsDir, NoLog: true, NoSigs: true,
	}
	if i.options.Secured {
		i.secureNATS(options)
	}
	return options
}

// ReloadNATS gives the NATS server the present output of portolan certs nats-config, as an operator does
// with nats-server --signal reload.
func (i *Installation) ReloadNATS() {
	i.Helper()
	if err := i.nats.ReloadOptions(i.natsOptions()); err != nil {
		i.Fatal(err)
	}
}

// flags returns the flags of a daemon that listens on an address.
func (i *Installation) flags(daemon string, on netip.Addr) []string {
	at := func(port int) string { return netip.AddrPortFrom(on, uint16(port)).String() }
	peer := func(daemon string) string { return fmt.Sprintf("%s:%d", control[0], ports[daemon]) }
	flags := []string{
		"-addr", at(ports[daemon]), "-http-addr", at(ports[daemon] + 100), "-log-format", "json", "-nats-url", i.NATS(),
	}
	if !i.options.Secured {
		flags = append(flags, "-insecure")
	} else if daemon != "nodeagent" {
		flags = append(flags, i.tlsFlags(daemon)...)
		flags = append(flags, "-tls-renewed", filepath.Join(i.TempDir(), "renewed"))
	}
	if daemon != "registry" {
		flags = append(flags, "-registry", peer("registry"))
	}
	ranges := []string{"-service-cidr", joined(Services)}
	switch daemon {
	case "registry":
		store := i.options.Store
		if store == "" {
			store = "sqlite:" + filepath.Join(i.TempDir(), "registry")
		}
		if i.options.Secured {
			flags = append(flags, "-issuer-cert", filepath.Join(i.Certs, "issuer.crt"), "-issuer-key", filepath.Join(i.Certs, "issuer.key"),
				"-certificate-lifetime", i.lifetime().String(), "-certificate-renewals", "1000")
		}
		flags = append(flags, "-store-file", kittest.SecretFile(i, store), "-allocator", peer("allocator"), "-external-ip-ranges", joined(External))
	case "allocator":
		flags = append(flags, "-data-dir", filepath.Join(i.TempDir(), "allocator"), "-load-balancer-pool", joined(Balanced))
	case "dnssvc":
		flags = append(flags, "-listen", at(53), "-pod-cidr", joined(Pods), "-transfer-allow", control[0].String()+"/32",
			"-clients", "0.0.0.0/0,::/0", "-lame-duck", "0s")
	case "endpointctl":
		ranges = nil
	case "nodeagent":
		flags = append(flags, "-pod-cidr", joined(Pods), "-healthz-addr", "", "-strict")
	}
	return slices.Concat(flags, ranges, i.options.Flags[daemon])
}

func joined(ranges [2]netip.Prefix) string { return ranges[0].String() + "," + ranges[1].String() }

// addNode makes a node with the nth part of the pods' ranges.
func (i *Installation) addNode(n int, o NodeOptions) {
	i.Helper()
	node := &Node{Name: o.Name, Zone: o.Zone, ProxyMode: o.ProxyMode, dataDir: i.TempDir(), PodRanges: [2]netip.Prefix{
		netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(n), 0}), 24),
		netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0xfd, 2: 2, 3: 0x44, 7: byte(n)}), 64),
	}}
	node.Namespace, node.Addresses = i.Attach(o.Name, node.PodRanges[:]...)
	forward(i, node.Namespace)
	if o.ProxyMode == "userspace" {
		for _, p := range slices.Concat(Services[:], Balanced[:], External[:]) {
			node.Namespace.Local(i, p)
		}
	}
	i.Nodes = append(i.Nodes, node)
	i.StartAgent(node)
	node.Agent = nodeagentv1.NewNodeAgentServiceClient(i.dial(identity.NodeAgent, netip.AddrPortFrom(node.Addresses[0], uint16(ports["nodeagent"]))))
}

// StartAgent starts the agent of a node that has none.
func (i *Installation) StartAgent(n *Node) {
	i.Helper()
	flags := append(i.flags("nodeagent", n.Addresses[0]),
		"-node-name", n.Name, "-node-addresses", n.Addresses[0].String()+","+n.Addresses[1].String(),
		"-node-labels", "topology.kubernetes.io/zone="+n.Zone, "-proxy-mode", n.ProxyMode, "-data-dir", n.dataDir,
		"-advertise-addr", fmt.Sprintf("%s:%d", n.Addresses[0], ports["nodeagent"]),
	)
	if i.options.Secured {
		flags = append(flags, i.tlsFlags("nodeagent/"+n.Name)...)
	}
	n.Process = Start(i, n.Name, "nodeagent", n.Namespace, flags)
}

// Restart stops a daemon of the control plane as a supervisor does, and starts it again.
func (i *Installation) Restart(daemon string) {
	i.Helper()
	i.Processes[daemon].Stop()
	i.Processes[daemon] = Start(i, daemon, daemon, i.Hub, i.commands[daemon])
	i.awaitReady(daemon, control[0], ports[daemon]+100)
	// The connection backs off after a refusal.
	kittest.Eventually(i, "the connection to the registry", func() error {
		_, err := registryv1.NewChangeServiceClient(i.Conn).GetHead(i.Context(), &registryv1.GetHeadRequest{})
		return err
	})
}

// AddRegistry starts another replica of the registry and returns its address. The store must be a
// shared one.
func (i *Installation) AddRegistry() netip.AddrPort {
	i.Helper()
	i.replicas++
	name := fmt.Sprintf("registry-%d", i.replicas+1)
	at := netip.AddrPortFrom(control[0], uint16(ports["registry"]+10*i.replicas))
	health := int(at.Port()) + 100
	flags := append(i.flags("registry", control[0]), "-addr", at.String(), "-http-addr", fmt.Sprintf("%s:%d", control[0], health))
	i.Processes[name] = Start(i, name, "registry", i.Hub, flags)
	i.commands[name] = flags
	i.awaitReady(name, control[0], health)
	return at
}

// RegistryAt returns the address of the first registry.
func (i *Installation) RegistryAt() netip.AddrPort {
	return netip.AddrPortFrom(control[0], uint16(ports["registry"]))
}

// AllocatorAt returns the address of the allocator.
func (i *Installation) AllocatorAt() netip.AddrPort {
	return netip.AddrPortFrom(control[0], uint16(ports["allocator"]))
}

// NATS returns the URL of the NATS server.
func (i *Installation) NATS() string { return fmt.Sprintf("nats://%s:4222", control[0]) }

// dial returns a connection to a daemon of the given role. In a secured installation it has the
// rights of an operator.
func (i *Installation) dial(role identity.Role, at netip.AddrPort) *grpc.ClientConn {
	i.Helper()
	if i.options.Secured {
		return i.DialAs(i.files("operator"), role, at)
	}
	return i.Dial(at)
}

// Dial returns a connection without TLS to a daemon, which is closed when the test ends.
func (i *Installation) Dial(at netip.AddrPort) *grpc.ClientConn {
	i.Helper()
	conn, err := rpc.TCP().Dial(at.String())
	if err != nil {
		i.Fatal(err)
	}
	i.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Allocator returns a connection to the allocator.
func (i *Installation) Allocator() *grpc.ClientConn {
	return i.dial(identity.Allocator, i.AllocatorAt())
}

// DNS returns the address of the name server.
func (i *Installation) DNS() netip.AddrPort { return netip.AddrPortFrom(control[0], 53) }

// awaitReady waits until a daemon is ready.
func (i *Installation) awaitReady(name string, on netip.Addr, port int) {
	i.Helper()
	at := netip.AddrPortFrom(on, uint16(port))
	client, base := i.health(name, at)
	kittest.Eventually(i, name, func() error { return Ready(client, base) })
}

// awaitRegistered waits until the registry has the node with its addresses. An agent is ready when it can
// forward, which may be earlier.
func (i *Installation) awaitRegistered(n *Node) {
	i.Helper()
	kittest.Eventually(i, "the registration of "+n.Name, func() error {
		answer, err := registryv1.NewNodeServiceClient(i.Conn).GetNode(i.Context(), &registryv1.GetNodeRequest{Name: n.Name})
		if err == nil && len(answer.GetNode().GetStatus().GetAddresses()) == 0 {
			err = fmt.Errorf("node %s has no addresses", n.Name)
		}
		return err
	})
}

// health returns a client of a daemon's HTTP address, and the URL of the address.
func (i *Installation) health(name string, at netip.AddrPort) (client *http.Client, base string) {
	if !i.options.Secured {
		return &http.Client{}, fmt.Sprintf("http://%s", at)
	}
	role, _, _ := strings.Cut(name, "-") // replicas of the registry have a number
	if !slices.Contains(identity.Roles(), identity.Role(role)) {
		role = string(identity.NodeAgent)
	}
	return i.HTTPAs(i.files("operator"), identity.Role(role)), fmt.Sprintf("https://%s", at)
}

// HTTPAs returns a client of the HTTP address of a daemon of the given role, with the certificate in
// files.
func (i *Installation) HTTPAs(files identity.Files, role identity.Role) *http.Client {
	i.Helper()
	return &http.Client{Transport: &http.Transport{TLSClientConfig: i.Source(files).TLS(role), DisableKeepAlives: true}}
}

// Metric returns the value of one series, by its name and labels, of a daemon of the control plane or
// of the agent of a node.
func (i *Installation) Metric(daemon, series string) (value float64) {
	i.Helper()
	_, line, _ := strings.Cut(i.Page(daemon, "/metrics"), "\n"+series+" ")
	if _, err := fmt.Sscan(line, &value); err != nil {
		i.Fatalf("%s: series %s: %v", daemon, series, err)
	}
	return value
}

// Page returns a page that a daemon of the control plane, or the agent of a node, serves by HTTP.
func (i *Installation) Page(daemon, path string) string {
	i.Helper()
	at := netip.AddrPortFrom(control[0], uint16(ports[daemon]+100))
	for _, node := range i.Nodes {
		if node.Name == daemon {
			at = netip.AddrPortFrom(node.Addresses[0], uint16(ports["nodeagent"]+100))
		}
	}
	client, base := i.health(daemon, at)
	answer, err := client.Get(base + path)
	if err != nil {
		i.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		i.Fatal(err)
	}
	return string(text)
}

// HTTPIn returns a client that connects from a namespace. It takes addresses only, no names.
func HTTPIn(in *topology.Namespace) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, addr string) (conn net.Conn, err error) {
			err = in.Do(func() error {
				conn, err = (&net.Dialer{}).DialContext(ctx, network, addr)
				return err
			})
			return conn, err
		},
	}}
}

// readyTimeout is the timeout of one request for a daemon's health.
const readyTimeout = 2 * time.Second

// Ready asks a daemon at its HTTP address, such as http://10.0.0.1:7500, whether it is ready, and
// returns the reason if it is not.
func Ready(client *http.Client, base string) error {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/readyz", nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%d: %s", answer.StatusCode, strings.TrimSpace(string(text)))
	}
	return err
}
