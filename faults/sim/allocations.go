package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"portolan.dev/faults/sim/weather"
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
	patience = verifyGrace + 2*verifyInterval + 30*time.Second
)

var registryNames = []string{"registry-a", "registry-b"}

func drawAllocations(d *drawing) {
	length := 300*time.Millisecond + pick(d, d.upTo(3*time.Second), d.upTo(10*time.Second), d.upTo(2*verifyGrace))
	for n := range 1 + d.random.IntN(4) {
		drawServiceWrites(d, fmt.Sprintf("client-%d", n), length)
	}
	if d.chance(20) {
		return // no trouble
	}
	for range 1 + d.random.IntN(5) {
		drawAllocationTrouble(d, d.within(length))
	}
}

func drawAllocationTrouble(d *drawing, at time.Duration) {
	switch d.random.IntN(10) {
	case 0, 1, 2:
		drawAllocationWeather(d, at)
	case 3:
		drawBroken(d, at, slices.Concat(registryNames, []string{allocatorName}))
	case 4, 5, 6:
		drawRestart(d, at, allocatorName, func(w *world) { w.cluster.startAllocator() })
	default:
		name := pick(d, registryNames...)
		drawRestart(d, at, name, func(w *world) { w.cluster.startRegistry(name) })
	}
}

// drawAllocationWeather adds an episode of bad weather between daemons, or between a daemon and its
// store.
func drawAllocationWeather(d *drawing, at time.Duration) {
	one := pick(d, registryNames...)
	e := weather.Episode{
		Links: pick(d, "grpc", "grpc client", "grpc registry", "grpc "+one, "grpc "+allocatorName, "nats", "nats "+allocatorName,
			"database", "database "+one, "disk"),
		Slowest: pick(d, 0, 20*time.Millisecond, 300*time.Millisecond, 3*time.Second),
		Lost:    pick(d, 0, 0, 5, 30, 100),
	}
	lasts := d.upTo(8 * time.Second)
	d.add(at, func(w *world) { w.weather.Add(e, lasts) }, "weather on %q for %s: slowest %s, lost %d%%", e.Links, lasts, e.Slowest, e.Lost)
}

func runAllocations(w *world, events []Event) error {
	c := newCluster(w)
	defer c.close()
	c.startAll()
	w.play(events)
	c.clients.Wait()
	c.startAll()
	if err := w.waitUntilCalm(patience, c.differences); err != nil {
		return err
	}
	if broken := c.accountBook.violations(); len(broken) > 0 {
		return fmt.Errorf("%s", strings.Join(broken, "\n"))
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
