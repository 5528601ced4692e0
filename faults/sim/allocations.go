package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"portolan.dev/faults/sim/netem"
)

// allocations simulates two registries on one database, an allocator on a disk of its own, and
// clients that make, change and delete services, which compete for few addresses and node ports. No
// value may belong to two services at any revision. The allocator holds the values that services
// have, and at rest no others.
var allocations = scenario{draw: drawAllocations, run: runAllocations}

const (
	allocatorName = "allocator"
	// patience bounds the time until the allocator has freed the values that no service has: its
	// grace and two comparisons.
	releaseTimeout = verifyGrace + 2*verifyInterval + 30*time.Second
)

var registryNames = []string{"registry-a", "registry-b"}

func drawAllocations(g *generator) {
	length := 300*time.Millisecond + pick(g, g.upTo(3*time.Second), g.upTo(10*time.Second), g.upTo(2*verifyGrace))
	for n := range 1 + g.random.IntN(4) {
		drawServiceWrites(g, fmt.Sprintf("client-%d", n), length)
	}
	if g.chance(20) {
		return // no trouble
	}
	for range 1 + g.random.IntN(5) {
		drawAllocationFault(g, g.within(length))
	}
}

func drawAllocationFault(g *generator, at time.Duration) {
	switch g.random.IntN(10) {
	case 0, 1, 2:
		drawAllocationImpairment(g, at)
	case 3:
		drawNATSFault(g, at, slices.Concat(registryNames, []string{allocatorName}))
	case 4, 5, 6:
		drawRestart(g, at, allocatorName, func(w *world) { w.cluster.startAllocator() })
	default:
		name := pick(g, registryNames...)
		drawRestart(g, at, name, func(w *world) { w.cluster.startRegistry(name) })
	}
}

// drawAllocationWeather adds an episode of bad weather between daemons, or between a daemon and its
// store.
func drawAllocationImpairment(g *generator, at time.Duration) {
	registryName := pick(g, registryNames...)
	e := netem.Impairment{
		LinkPrefix: pick(g, "grpc", "grpc client", "grpc registry", "grpc "+registryName, "grpc "+allocatorName, "nats", "nats "+allocatorName,
			"database", "database "+registryName, "disk"),
		MaxDelay:    pick(g, 0, 20*time.Millisecond, 300*time.Millisecond, 3*time.Second),
		LostPercent: pick(g, 0, 0, 5, 30, 100),
	}
	duration := g.upTo(8 * time.Second)
	g.add(at, func(w *world) { w.emulator.Add(e, duration) }, "weather on %q for %s: slowest %s, lost %d%%", e.LinkPrefix, duration, e.MaxDelay, e.LostPercent)
}

func runAllocations(w *world, events []Event) error {
	c := newCluster(w)
	defer c.close()
	c.startAll()
	w.play(events)
	c.clients.Wait()
	c.startAll()
	if err := w.waitUntilConsistent(releaseTimeout, c.differences); err != nil {
		return err
	}
	if violations := c.ownership.violations(); len(violations) > 0 {
		return fmt.Errorf("%s", strings.Join(violations, "\n"))
	}
	return c.checkCalls()
}

// startAll starts the daemons that are not running.
func (c *cluster) startAll() {
	for _, name := range registryNames {
		c.startRegistry(name)
	}
	c.startAllocator()
}
