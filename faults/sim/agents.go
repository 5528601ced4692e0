package sim

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/faults/sim/machine"
	"portolan.dev/nodeagent"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/config"
)

// agents simulates node agents, each on a machine of its own, while clients write services and slices. What a kernel
// forwards goes through plans of the log in their order, and at rest it is the plan of the log's head.
var agents = scenario{draw: drawAgents, run: runAgents}

// drainTimeout is how long connections to a leaving backend may go on.
const drainTimeout = 20 * time.Second

// Ranges of addresses.
var (
	clusterRange = netip.MustParsePrefix("10.96.0.0/16")
	podRange     = netip.MustParsePrefix("10.244.0.0/16")
)

func drawAgents(d *drawing) {
	length := 300*time.Millisecond + pick(d, d.upTo(5*time.Second), d.upTo(30*time.Second))
	drawForwardingWrites(d, length)
	if d.chance(15) {
		return // no trouble
	}
	for range 1 + d.random.IntN(5) {
		drawAgentTrouble(d, d.within(length), pick(d, nodeNames...))
	}
}

func drawAgentTrouble(d *drawing, at time.Duration, name string) {
	switch d.random.IntN(10) {
	case 0, 1, 2:
		drawWeather(d, at, nodeNames)
	case 3, 4:
		drawBroken(d, at, nodeNames)
	case 5, 6:
		drawAgentLog(d, at)
	default:
		drawRestart(d, at, name, func(w *world) { w.startAgent(name) })
	}
}

// drawAgentLog adds that the log loses its past, or gets another epoch.
func drawAgentLog(d *drawing, at time.Duration) {
	if d.chance(60) {
		d.add(at, func(w *world) { w.registry.Prune() }, "the log is pruned")
		return
	}
	d.add(at, func(w *world) { w.registry.NewEpoch() }, "the log gets a new epoch")
}

func runAgents(w *world, events []Event) error {
	w.nodes = map[string]*node{}
	for i, name := range nodeNames {
		w.nodes[name] = newNode(w, name, netip.AddrFrom4([4]byte{192, 0, 2, byte(1 + i)}))
	}
	startAll := func() {
		for _, name := range nodeNames {
			w.startAgent(name)
		}
	}
	startAll()
	w.play(events)
	startAll()
	err := w.settles(2*time.Minute, func() (text string) {
		for _, name := range nodeNames {
			text += w.nodes[name].wrong()
		}
		return text
	})
	for _, name := range nodeNames {
		err = errors.Join(append(w.nodes[name].forwarding.violations, err)...)
	}
	return err
}

// node is a machine with an agent.
type node struct {
	name       string
	world      *world
	machine    *machine.Machine
	process    *machine.Process     // the last one
	metrics    *prometheus.Registry // its metrics
	forwarding *forwarding
}

func newNode(w *world, name string, addresses ...netip.Addr) *node {
	n := &node{name: name, world: w, machine: machine.New(filepath.Join(w.folder(), name), addresses...)}
	n.forwarding = newForwarding(w.registry, name, addresses)
	n.machine.Changed = n.forwarding.changed
	n.machine.Removed = func(machine.Removal) {}
	n.machine.Refused = func(kernelID) {}
	n.machine.Refuses = func() bool { return false }
	n.machine.Lingers = func(backend netip.AddrPort) time.Duration {
		hash := fnv.New32a()
		hash.Write([]byte(backend.String()))
		return time.Duration(hash.Sum32()%30) * time.Second
	}
	return n
}

// agentNetwork is the network of an agent, which dies together with its way to the kernel.
type agentNetwork struct {
	member
	process *machine.Process
}

// Kill implements member.
func (n agentNetwork) Kill() {
	n.process.Kill()
	n.member.Kill()
}

// startAgent starts the agent of a node.
func (w *world) startAgent(name string) {
	if w.running[name] != nil {
		return
	}
	n := w.nodes[name]
	n.process = n.machine.Start()
	w.run(name, agentNetwork{w.join(name), n.process}, func(ctx context.Context, host app.Host) (app.Daemon, error) {
		var cfg nodeagent.Config
		config.Defaults(&cfg)
		cfg.NodeName, cfg.Registry, cfg.DataDir = name, "registry", n.process.Folder()
		cfg.Strict, cfg.TrafficMetrics, cfg.DrainTimeout = true, 0, drainTimeout
		cfg.ServiceCIDR, cfg.PodCIDR = []netip.Prefix{clusterRange}, []netip.Prefix{podRange}
		n.metrics = prometheus.NewRegistry()
		host.Metrics = n.metrics
		return nodeagent.NewOn(ctx, n.process, cfg, host)
	})
}

// applied is the revision that the agent reports to be in force.
func (n *node) applied() uint64 {
	families, _ := n.metrics.Gather() // an error leaves the metric out
	i := slices.IndexFunc(families, func(f *metricFamily) bool { return f.GetName() == "portolan_nodeagent_applied_revision" })
	if i < 0 {
		return 0
	}
	return uint64(families[i].GetMetric()[0].GetGauge().GetValue())
}

// wrong returns what is wrong with a node at rest.
func (n *node) wrong() string {
	text := n.forwarding.difference(n.machine.Servers())
	if applied, head := n.applied(), n.world.registry.Log.Revision(); applied != head {
		text += fmt.Sprintf("revision %d is in force, it says, the log is at %d\n", applied, head)
	}
	if text != "" {
		text = n.name + ":\n" + text
	}
	return text
}
