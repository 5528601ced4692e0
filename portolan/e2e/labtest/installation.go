package labtest

import (
	"fmt"
	"io"
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
	"portolan.dev/portolan/internal/client"
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
	options   Options
	commands  map[string][]string // flags of the daemons of the control plane
	replicas  int                 // replicas of the registry besides the first
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
	i.startNATS()
	for _, daemon := range []string{"allocator", "registry", "endpointctl", "dnssvc"} {
		i.commands[daemon] = i.flags(daemon, control[0])
		i.Processes[daemon] = Start(t, daemon, daemon, i.Hub, i.commands[daemon])
	}
	for n, options := range o.Nodes {
		i.addNode(n+1, options)
	}
	i.Conn = i.Dial(i.RegistryAt())
	i.Registry = client.New(i.Conn)
	for daemon := range i.Processes {
		i.awaitReady(daemon, control[0], ports[daemon]+100)
	}
	for _, n := range i.Nodes {
		i.awaitReady(n.Name, n.Addresses[0], ports["nodeagent"]+100)
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
	nats, err := server.NewServer(&server.Options{
		Host: control[0].String(), Port: 4222, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true,
	})
	if err != nil {
		i.Fatal(err)
	}
	nats.Start()
	i.Cleanup(func() { kittest.StopNATS(nats) })
	if !nats.ReadyForConnections(patience) {
		i.Fatal("nats does not start")
	}
}

// flags returns the flags of a daemon that listens on an address.
func (i *Installation) flags(daemon string, on netip.Addr) []string {
	at := func(port int) string { return netip.AddrPortFrom(on, uint16(port)).String() }
	peer := func(daemon string) string { return fmt.Sprintf("%s:%d", control[0], ports[daemon]) }
	flags := []string{
		"-addr", at(ports[daemon]), "-http-addr", at(ports[daemon] + 100), "-insecure", "-log-format", "json",
		"-nats-url", i.NATS(),
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
		flags = append(flags, "-store", store, "-allocator", peer("allocator"))
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
	node.Agent = nodeagentv1.NewNodeAgentServiceClient(i.Dial(netip.AddrPortFrom(node.Addresses[0], uint16(ports["nodeagent"]))))
}

// StartAgent starts the agent of a node that has none.
func (i *Installation) StartAgent(n *Node) {
	i.Helper()
	n.Process = Start(i, n.Name, "nodeagent", n.Namespace, append(i.flags("nodeagent", n.Addresses[0]),
		"-node-name", n.Name, "-node-addresses", n.Addresses[0].String()+","+n.Addresses[1].String(),
		"-node-labels", "topology.kubernetes.io/zone="+n.Zone, "-proxy-mode", n.ProxyMode, "-data-dir", n.dataDir,
		"-advertise-addr", fmt.Sprintf("%s:%d", n.Addresses[0], ports["nodeagent"]),
	))
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

// Dial returns a connection to a daemon, which is closed when the test ends.
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
	return i.Dial(i.AllocatorAt())
}

// DNS returns the address of the name server.
func (i *Installation) DNS() netip.AddrPort { return netip.AddrPortFrom(control[0], 53) }

// awaitReady waits until a daemon is ready.
func (i *Installation) awaitReady(name string, on netip.Addr, port int) {
	i.Helper()
	kittest.Eventually(i, name, func() error { return Ready(netip.AddrPortFrom(on, uint16(port))) })
}

// Ready asks a daemon at its HTTP address whether it is ready, and returns the reason if it is not.
func Ready(at netip.AddrPort) error {
	client := http.Client{Timeout: 2 * time.Second}
	answer, err := client.Get(fmt.Sprintf("http://%s/readyz", at))
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
