package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"portolan.dev/faults/sim/netem"
)

// allocations simulates two registries on one database, an allocator with its own disk, and clients
// that create, update and delete services, which compete for few addresses and node ports. No value
// may belong to two services at any revision. The values of services must be allocated to them, and
// at rest no other values may be allocated.
var allocations = scenario{draw: drawAllocations, run: runAllocations}

const (
	allocatorName = "allocator"
	// releaseTimeout bounds the time until the allocator has released the values that no service
	// has: the verifier's grace, two of its intervals, and 30 s in reserve.
	releaseTimeout = verifyGrace + 2*verifyInterval + 30*time.Second
)

var registryNames = []string{"registry-a", "registry-b"}

func drawAllocations(g *generator) {
	length := 300*time.Millisecond + pick(g, g.upTo(3*time.Second), g.upTo(10*time.Second), g.upTo(2*verifyGrace))
	for n := range 1 + g.random.IntN(4) {
		drawServiceWrites(g, fmt.Sprintf("client-%d", n), length)
	}
	if g.chance(20) {
		return // no faults
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

// drawAllocationImpairment adds an impairment of links between daemons, or between daemons and
// their stores.
func drawAllocationImpairment(g *generator, at time.Duration) {
	registryName := pick(g, registryNames...)
	imp := netem.Impairment{
		LinkPrefix: pick(g, "grpc", "grpc client", "grpc registry", "grpc "+registryName, "grpc "+allocatorName, "nats", "nats "+allocatorName,
			"database", "database "+registryName, "disk"),
		MaxDelay:    pick(g, 0, 20*time.Millisecond, 300*time.Millisecond, 3*time.Second),
		LostPercent: pick(g, 0, 0, 5, 30, 100),
	}
	duration := g.upTo(8 * time.Second)
	g.add(at, func(w *world) { w.emulator.Add(imp, duration) }, "links %q for %s: delay %s, loss %d%%", imp.LinkPrefix, duration, imp.MaxDelay, imp.LostPercent)
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

// startAll starts the daemons that do not run.
func (c *cluster) startAll() {
	for _, name := range registryNames {
		c.startRegistry(name)
	}
	c.startAllocator()
}
