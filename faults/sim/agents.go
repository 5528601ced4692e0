package sim

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"portolan.dev/faults/sim/machine"
	"portolan.dev/faults/sim/netem"
	"portolan.dev/nodeagent"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/config"
)

// agents simulates node agents, each on its own machine, while clients write services and slices.
// Each kernel must follow the plans in the order of the log, and have the plan of the log's head at
// rest.
var agents = scenario{draw: drawAgents, run: runAgents}

// drainTimeout is the time that the agents give a removed backend to drain.
const drainTimeout = 20 * time.Second

var (
	clusterRange = netip.MustParsePrefix("10.96.0.0/16")
	podRange     = netip.MustParsePrefix("10.244.0.0/16")
)

func drawAgents(g *generator) {
	length := 300*time.Millisecond + pick(g, g.upTo(5*time.Second), g.upTo(30*time.Second))
	drawForwardingWrites(g, length)
	if g.chance(15) {
		return // no faults
	}
	for range 1 + g.random.IntN(5) {
		drawAgentFault(g, g.within(length), pick(g, nodeNames...))
	}
}

func drawAgentFault(g *generator, at time.Duration, name string) {
	switch g.random.IntN(14) {
	case 0, 1:
		drawImpairment(g, at, nodeNames)
	case 2, 3:
		drawNATSFault(g, at, nodeNames)
	case 4, 5:
		drawAgentLogFault(g, at)
	case 6, 7:
		drawAddressChange(g, at, name)
	case 8:
		drawRefusals(g, at, name)
	case 9, 10:
		drawKillDuringApply(g, at, name)
	case 11:
		duration := pick(g, g.upTo(20*time.Second), g.upTo(100*time.Second))
		unreachable := netem.Impairment{LinkPrefix: "grpc " + name, LostPercent: 100}
		g.add(at, func(w *world) { w.emulator.Add(unreachable, duration) }, "%s does not reach the registry for %s", name, duration)
		drawRestart(g, at+g.upTo(2*time.Second), name, func(w *world) { w.startAgent(name) })
	default:
		drawRestart(g, at, name, func(w *world) { w.startAgent(name) })
	}
}

// drawKillDuringApply adds events that kill an agent between two changes of its kernel, and start
// it again.
func drawKillDuringApply(g *generator, at time.Duration, name string) {
	changes := g.random.IntN(8)
	g.add(at, func(w *world) { w.nodes[name].process.KillAfter(changes) }, "%s is killed after %d changes of its kernel", name, changes)
	at += g.upTo(4 * time.Second)
	g.add(at, func(w *world) { w.stop(name, true) }, "%s is killed, unless the changes of its kernel have killed it", name)
	g.add(at+g.upTo(6*time.Second), func(w *world) { w.startAgent(name) }, "%s starts again", name)
}

// drawRefusals adds a period in which a node's kernel refuses some of the changes.
func drawRefusals(g *generator, at time.Duration, name string) {
	percent, duration := 10+g.random.IntN(60), g.upTo(5*time.Second)
	g.add(at, func(w *world) { w.nodes[name].refusedPercent.Store(int64(percent)) }, "the kernel of %s refuses %d%% of all changes", name, percent)
	g.add(at+duration, func(w *world) { w.nodes[name].refusedPercent.Store(0) }, "the kernel of %s no longer refuses changes", name)
}

// drawAddressChange adds events that add a node's second address and, with a chance of 70%, remove
// it.
func drawAddressChange(g *generator, at time.Duration, name string) {
	g.add(at, func(w *world) { w.nodes[name].setSecondAddress(true) }, "%s gets its second address", name)
	if g.chance(70) {
		g.add(at+g.upTo(8*time.Second), func(w *world) { w.nodes[name].setSecondAddress(false) }, "%s loses its second address", name)
	}
}

// drawAgentLogFault adds an event that prunes the log or gives it a new epoch.
func drawAgentLogFault(g *generator, at time.Duration) {
	if g.chance(60) {
		g.add(at, func(w *world) { w.registry.Prune() }, "the log is pruned")
		return
	}
	g.add(at, func(w *world) { w.registry.NewEpoch() }, "the log gets a new epoch")
}

func runAgents(w *world, events []Event) error {
	w.nodes = map[string]*node{}
	for i, name := range nodeNames {
		w.nodes[name] = newNode(w, name, byte(1+i))
	}
	startAll := func() {
		for _, name := range nodeNames {
			w.startAgent(name)
		}
	}
	startAll()
	w.play(events)
	for _, name := range nodeNames {
		w.nodes[name].refusedPercent.Store(0)
	}
	startAll()
	err := w.waitUntilConsistent(2*time.Minute, func() (text string) {
		for _, name := range nodeNames {
			text += w.nodes[name].differences()
		}
		return text
	})
	for _, name := range nodeNames {
		err = errors.Join(w.nodes[name].forwarding.err(), err)
	}
	return err
}

// node is a machine with an agent.
type node struct {
	name           string
	world          *world
	machine        *machine.Machine
	process        *machine.Process     // the last process of the agent
	metrics        *prometheus.Registry // the metrics of that process
	forwarding     *forwardingChecker
	first, second  netip.Addr   // the first address is always present
	refusedPercent atomic.Int64 // the share of changes that the kernel refuses
}

func newNode(w *world, name string, number byte) *node {
	n := &node{
		name: name, world: w,
		first: netip.AddrFrom4([4]byte{192, 0, 2, number}), second: netip.AddrFrom4([4]byte{203, 0, 113, number}),
	}
	n.machine = machine.New(filepath.Join(w.tempDir(), name), n.first)
	n.forwarding = newForwardingChecker(w.registry, name, n.machine, []netip.Addr{n.first, n.second})
	n.forwarding.setAddress(n.first, true)
	random := rand.New(rand.NewPCG(uint64(number), uint64(number)))
	n.machine.Refuses = func() bool { return n.refusedPercent.Load() > random.Int64N(100) }
	n.machine.DrainTime = func(backend netip.AddrPort) time.Duration {
		hash := fnv.New32a()
		hash.Write([]byte(backend.String()))
		return time.Duration(hash.Sum32()%30) * time.Second
	}
	return n
}

// setSecondAddress adds or removes the second address of the node.
func (n *node) setSecondAddress(present bool) {
	addresses := []netip.Addr{n.first}
	if present {
		addresses = append(addresses, n.second)
	}
	n.forwarding.setAddress(n.second, present)
	n.machine.SetAddresses(addresses...)
}

// agentNetwork is the network of an agent. Killing it also kills the agent's process on the
// machine.
type agentNetwork struct {
	killableNetwork
	process *machine.Process
}

// Kill implements killableNetwork.
func (n agentNetwork) Kill() {
	n.process.Kill()
	n.killableNetwork.Kill()
}

// startAgent starts the agent of a node unless it runs.
func (w *world) startAgent(name string) {
	if w.running[name] != nil {
		return
	}
	n := w.nodes[name]
	n.process = n.machine.Start()
	w.run(name, agentNetwork{w.joinNetwork(name), n.process}, func(ctx context.Context, host app.Host) (app.Daemon, error) {
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

// appliedRevision returns the revision that the agent reports as applied.
func (n *node) appliedRevision() uint64 {
	families, _ := n.metrics.Gather() // in case of an error, the metric is missing
	i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == "portolan_nodeagent_applied_revision" })
	if i < 0 {
		return 0
	}
	return uint64(families[i].GetMetric()[0].GetGauge().GetValue())
}

// differences describes the differences between a node and the log at rest.
func (n *node) differences() string {
	text := n.forwarding.difference()
	if applied, head := n.appliedRevision(), n.world.registry.Log.Revision(); applied != head {
		text += fmt.Sprintf("the agent reports revision %d as applied, the log is at %d\n", applied, head)
	}
	if text != "" {
		text = n.name + ":\n" + text
	}
	return text
}
