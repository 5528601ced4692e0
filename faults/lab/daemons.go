package lab

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	"portolan.dev/portolan/e2e/labtest"
)

// ports are the ports of the daemons' APIs. The port for metrics and health is 100 higher.
var ports = map[string]int{"registry": 7400, "allocator": 7401, "endpointctl": 7402, "dnssvc": 7403, "nodeagent": 7404, "lbctl": 7406}

// retention is the number of changes that the registries keep. It is small so that the log is
// pruned while a daemon is cut off for a few seconds.
const retention = 300

// healthAt returns the address of a daemon's metrics and health, which is on the loopback of its
// machine. There neither this release nor the previous one uses TLS.
func healthAt(daemon string) string { return fmt.Sprintf("127.0.0.1:%d", ports[daemon]+100) }

// programOf returns the name of the program that the named machine runs.
func programOf(name string) string {
	if strings.HasPrefix(name, "node-") {
		return "nodeagent"
	}
	kind, _, _ := strings.Cut(name, "-")
	return kind
}

// nodeNames returns the names of the machines with node agents.
func nodeNames() []string {
	nodes := make([]string, len(labtest.Modes()))
	for n := range nodes {
		nodes[n] = fmt.Sprintf("node-%d", n)
	}
	return nodes
}

// MachineNames returns the names of all machines with processes, grouped by program.
func MachineNames() [][]string {
	return [][]string{
		{"postgres-0", "postgres-1"}, {"nats-0", "nats-1", "nats-2"}, {"allocator-0"}, {"registry-0", "registry-1"},
		{"endpointctl-0", "endpointctl-1"}, {"lbctl-0", "lbctl-1"}, {"dnssvc-0", "dnssvc-1"}, nodeNames(),
	}
}

// addDaemons adds the machines of Portolan's daemons.
func (l *Lab) addDaemons() {
	l.Helper()
	modes := labtest.Modes()
	for _, names := range MachineNames()[2:] {
		for n, name := range names {
			m := l.addDaemon(name)
			if programOf(name) != "nodeagent" {
				continue
			}
			node := &Node{Machine: m, ProxyMode: modes[n]}
			l.Nodes = append(l.Nodes, node)
			l.prepareNode(node)
		}
	}
}

func (l *Lab) addDaemon(name string) *Machine {
	l.Helper()
	daemon := programOf(name)
	var m *Machine
	m = l.addMachine(name, l.TempDir(),
		func() *labtest.Process { return l.startDaemon(m) },
		func() error { return labtest.Ready(labtest.HTTPIn(m.Namespace), "http://"+healthAt(daemon)) })
	if HasDisk(name) {
		m.Disk = l.mountDisk(name)
	}
	return m
}

// HasDisk reports whether the named machine has a disk of its own.
func HasDisk(name string) bool {
	return !slices.Contains([]string{"postgres", "registry", "endpointctl", "lbctl"}, programOf(name))
}

// prepareNode sets up a node's namespace as an agent expects it, and stores its initial state.
func (l *Lab) prepareNode(n *Node) {
	l.Helper()
	n.Namespace.Sysctl(l, "net.ipv4.ip_forward", "1")
	n.Namespace.Sysctl(l, "net.ipv6.conf.all.forwarding", "1")
	if n.ProxyMode == "userspace" {
		for _, p := range slices.Concat(labtest.Services[:], labtest.Balanced[:], labtest.External[:]) {
			n.Namespace.Local(l, p)
		}
	}
	var err error
	if n.initialState, err = namespaceState(n.Namespace); err != nil {
		l.Fatalf("%s: %v", n.Name, err)
	}
}

// apiAddresses returns the addresses of the named daemons' APIs, separated by commas.
func (l *Lab) apiAddresses(names ...string) string {
	var all []string
	for _, name := range names {
		all = append(all, netip.AddrPortFrom(l.Machine(name).Addresses[0], uint16(ports[programOf(name)])).String())
	}
	return strings.Join(all, ",")
}

// flags returns the command-line flags of a machine's daemon. Intervals are a few seconds at
// most, so that daemons complete interrupted work soon.
func (l *Lab) flags(m *Machine) []string {
	daemon := programOf(m.Name)
	address := func(port int) string { return netip.AddrPortFrom(m.Addresses[0], uint16(port)).String() }
	join := func(ranges [2]netip.Prefix) string { return ranges[0].String() + "," + ranges[1].String() }
	flags := []string{
		"-addr", address(ports[daemon]), "-http-addr", healthAt(daemon), "-log-format", "json", "-nats-url", natsURL(l.brokers...),
		"-tls-cert", m.files.Cert, "-tls-key", m.files.Key, "-tls-ca", m.files.CA,
	}
	if daemon != "registry" {
		flags = append(flags, "-registry", l.apiAddresses("registry-0", "registry-1"))
	}
	if daemon != "endpointctl" && daemon != "lbctl" {
		flags = append(flags, "-service-cidr", join(labtest.Services))
	}
	switch daemon {
	case "registry":
		flags = append(flags, "-store", l.dsn(m), "-allocator", l.apiAddresses("allocator-0"), "-stream-replicas", fmt.Sprint(len(l.brokers)),
			"-log-retention", fmt.Sprint(retention), "-reap-interval", "1s")
	case "allocator":
		flags = append(flags, "-data-dir", filepath.Join(m.Disk, "data"), "-load-balancer-pool", join(labtest.Balanced),
			"-verify-grace", "5s", "-verify-interval", "1s")
	case "endpointctl":
		flags = append(flags, "-identity", m.Name, "-lease-duration", "2s")
	case "lbctl":
		flags = append(flags, "-allocator", l.apiAddresses("allocator-0"), "-identity", m.Name, "-lease-duration", "2s", "-announce=false",
			"-workers", "4", "-retry-min", "100ms", "-retry-max", "2s")
	case "dnssvc":
		flags = append(flags, "-listen", address(53), "-pod-cidr", join(labtest.Pods), "-transfer-allow", "172.31.0.0/16",
			"-clients", "0.0.0.0/0,::/0", "-lame-duck", "0s", "-data-dir", filepath.Join(m.Disk, "data"))
	case "nodeagent":
		flags = append(flags, "-node-name", m.Name, "-node-addresses", m.Addresses[0].String()+","+m.Addresses[1].String(),
			"-proxy-mode", l.modeOf(m), "-strict", "-pod-cidr", join(labtest.Pods), "-data-dir", filepath.Join(m.Disk, "data"))
	}
	return flags
}

func (l *Lab) modeOf(m *Machine) string {
	for _, n := range l.Nodes {
		if n.Machine == m {
			return n.ProxyMode
		}
	}
	return ""
}

// Resolver returns the address of a name server.
func (l *Lab) Resolver(name string) netip.AddrPort {
	return netip.AddrPortFrom(l.Machine(name).Addresses[0], 53)
}

// Agent returns a client of a node's agent that connects from the hub. All clients of a node share
// a connection, because a run of many rounds would otherwise open another connection in each round.
func (l *Lab) Agent(n *Node) nodeagentv1.NodeAgentServiceClient {
	l.Helper()
	if n.conn == nil {
		n.conn = l.Dial(n.Name)
	}
	return nodeagentv1.NewNodeAgentServiceClient(n.conn)
}
