package ipvs_test

import (
	"flag"
	"fmt"
	"net"
	"runtime"
	"slices"
	"testing"
	"time"

	moby "github.com/moby/ipvs"
	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/dataplane/dataplanetest/netnstest"
	"portolan.dev/nodeagent/kerneltest"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/yardstick"
)

var (
	measure = flag.Bool("measure", false, "measure, which takes minutes")
	rounds  = flag.Int("rounds", 3, "how often full loads are measured; the median counts")
)

// TestMeasure measures loading, changing and taking over many services. For comparison it measures
// in the same kernel the raw messages that are the minimum, and a library that sends one message at
// a time. The seconds are from an emulated machine, but the ratios hold elsewhere too.
func TestMeasure(t *testing.T) {
	if !*measure {
		t.Skip("allowed: measures only when asked to, with -measure")
	}
	kerneltest.Need(t)
	// Each part has its own subtest, so that its namespaces are gone when the next part begins. The
	// part that reads the kernel's list comes first, because the list is slow if other namespaces
	// have servers.
	t.Run("restart", takeOver)
	for _, size := range []struct {
		name            string
		servers, behind int
	}{{"load10k", 10000, 1}, {"load1kx100", 1000, 100}} {
		t.Run(size.name, func(t *testing.T) { fullLoad(t, size.name, netnstest.Servers(size.servers, size.behind)) })
	}
	t.Run("changes", func(t *testing.T) {
		small, middle, large := changes(t, 100), changes(t, 1000), changes(t, 10000)
		fmt.Printf("one change: %.3f ms at 100 services, %.3f at 1000, %.3f at 10000\n", small, middle, large)
		ratio("change_at_10k_vs_100", large/small, yardstick.AtMost(1.2))
	})
}

func ratio(name string, value float64, target yardstick.Target) {
	fmt.Println(yardstick.Line(name, value, target))
}

// fullLoad measures the methods in turn, each time in a new namespace.
func fullLoad(t *testing.T, name string, servers []*plan.VirtualServer) {
	var floor, took []float64
	for range *rounds {
		floor = append(floor, raw(t, servers))
		took = append(took, loadAll(t, servers))
	}
	const part = 20 // enough, because the time per message is constant
	alone := part * oneAtATime(t, servers[:len(servers)/part])
	fmt.Printf("%s: seconds of raw messages %.3f, of the plane %.3f, of moby/ipvs %.1f (a twentieth measured)\n", name, floor, took, alone)
	ratio("ipvs_"+name+"_vs_floor", median(took)/median(floor), yardstick.AtMost(1.4))
	ratio("moby_"+name+"_vs_floor", alone/median(floor), yardstick.Target{})
}

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// timed runs fn on a heap without garbage and returns its time in seconds.
func timed(t *testing.T, fn func() error) float64 {
	t.Helper()
	runtime.GC()
	began := time.Now()
	if err := fn(); err != nil {
		t.Fatal(err)
	}
	return time.Since(began).Seconds()
}

// raw returns the time of messages that are already encoded, 64 at a time.
func raw(t *testing.T, servers []*plan.VirtualServer) float64 {
	n := netnstest.NewNetwork(t)
	return timed(t, newFloor(t, n.Node.Path, servers, 64).send)
}

// oneAtATime returns the time with a library that waits for each answer.
func oneAtATime(t *testing.T, servers []*plan.VirtualServer) float64 {
	n := netnstest.NewNetwork(t)
	h, err := moby.New(n.Node.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	return timed(t, func() error {
		for _, v := range servers {
			s := &moby.Service{
				Address: net.IP(v.Addr.Addr().AsSlice()), Port: v.Addr.Port(), Protocol: uint16(v.Protocol),
				SchedName: "rr", AddressFamily: unix.AF_INET, Netmask: 0xffffffff,
			}
			if err := h.NewService(s); err != nil {
				return err
			}
			for _, r := range v.Reals {
				d := &moby.Destination{Address: net.IP(r.Addr.Addr().AsSlice()), Port: r.Addr.Port(), Weight: 1, AddressFamily: unix.AF_INET}
				if err := h.NewDestination(s, d); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func loadAll(t *testing.T, servers []*plan.VirtualServer) float64 {
	_, p := start(t)
	todo := dataplanetest.Changes(servers...)
	return timed(t, func() error {
		netnstest.Apply(t, p, todo)
		return nil
	})
}

// changes returns the median time of one change of an endpoint, in milliseconds.
func changes(t *testing.T, size int) float64 {
	_, p := start(t)
	servers := netnstest.Servers(size, 1)
	netnstest.Program(t, p, servers...)
	runtime.GC()
	var took []float64
	for i := range 1000 {
		v := servers[i%len(servers)]
		changed := *v
		changed.Reals = []plan.RealServer{{Addr: v.Reals[0].Addr, Weight: uint32(2 + i%7)}}
		began := time.Now()
		netnstest.Program(t, p, &changed)
		took = append(took, time.Since(began).Seconds()*1000)
	}
	return median(took)
}

// takeOver measures a restart and an audit.
func takeOver(t *testing.T) {
	n, p := start(t)
	servers := netnstest.Servers(10000, 10)
	netnstest.Program(t, p, servers...)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	next := openPlane(t, n)
	opened := time.Since(began)
	sources := n.Sources()
	changed := dataplanetest.Changes(servers...)
	changed.Sources = &sources
	netnstest.Apply(t, next, changed)
	fmt.Printf("restart at 10000 services of 10 endpoints: %.2f s until adopted, %.2f s until planned\n", opened.Seconds(), time.Since(began).Seconds())
	cpu := yardstick.CPUOfSelf()
	fmt.Printf("audit at 10000 services of 10 endpoints: %.2f s", timed(t, func() error {
		netnstest.State(t, next)
		return nil
	}))
	fmt.Printf(", %.2f s of CPU\n", (yardstick.CPUOfSelf() - cpu).Seconds())
}
