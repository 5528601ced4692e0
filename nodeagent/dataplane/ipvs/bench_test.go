package ipvs_test

import (
	"flag"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"portolan.dev/nodeagent/dataplane/dataplanetest/netnstest"
	"portolan.dev/nodeagent/dataplane/ipvs"
	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/kerneltest"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/kittest"
)

var measure = flag.Bool("measure", false, "measure, which takes minutes")

// TestMeasure loads, changes and takes over many services, beside the raw
// messages that this takes at least, in the same kernel. Seconds are those of an
// emulated machine; ratios hold.
func TestMeasure(t *testing.T) {
	if !*measure {
		t.Skip("allowed: measures only when asked to, with -measure")
	}
	kerneltest.Need(t)
	ratio := func(name string, value float64) { fmt.Printf("ratio %s %.3f\n", name, value) }
	for _, size := range []struct {
		name            string
		servers, behind int
	}{{"load10k", 10000, 1}, {"load1kx100", 1000, 100}} {
		servers := many(size.servers, size.behind)
		floor, alone := raw(t, servers, 64), raw(t, servers[:size.servers/10], 1)
		took := loadAll(t, servers)
		fmt.Printf("%s: raw %.2fs, one message at a time %.2fs, plane %.2fs\n", size.name, floor, 10*alone, took)
		ratio("ipvs_"+size.name+"_vs_floor", took/floor)
		ratio("one_at_a_time_"+size.name+"_vs_floor", 10*alone/floor)
	}
	small, middle, large := changes(t, 100), changes(t, 1000), changes(t, 10000)
	fmt.Printf("one change: %.3fms at 100 services, %.3fms at 1000, %.3fms at 10000\n", small, middle, large)
	ratio("change_at_10k_vs_100", large/small)
	takeOver(t)
}

// many makes servers with backends of their own.
func many(n, behind int) []*plan.VirtualServer {
	var out []*plan.VirtualServer
	for i := range n {
		v := tcp(netip.AddrPortFrom(netnstest.Nth(netnstest.Virtual[0], uint32(i)), 80))
		for j := range behind {
			v.Reals = append(v.Reals, plan.RealServer{Addr: netip.AddrPortFrom(netnstest.Nth(netnstest.Pods[0], uint32(i*behind+j)%65536), uint16(8000+(i*behind+j)/65536)), Weight: 1})
		}
		slices.SortFunc(v.Reals, func(a, b plan.RealServer) int { return a.Addr.Compare(b.Addr) })
		out = append(out, v)
	}
	return out
}

func raw(t *testing.T, servers []*plan.VirtualServer, together int) float64 {
	n := netnstest.NewNetwork(t)
	send, stop, err := ipvs.Raw(n.Node.Path, servers, together)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	began := time.Now()
	if err := send(); err != nil {
		t.Fatal(err)
	}
	return time.Since(began).Seconds()
}

func steps(servers []*plan.VirtualServer) []plan.Step {
	var out []plan.Step
	for _, v := range servers {
		out = append(out, add(v))
	}
	return plan.Order(out)
}

func loadAll(t *testing.T, servers []*plan.VirtualServer) float64 {
	_, p := start(t)
	todo := steps(servers)
	began := time.Now()
	apply(t, p, todo...)
	return time.Since(began).Seconds()
}

// changes is the median time of one change of an endpoint, in ms.
func changes(t *testing.T, size int) float64 {
	_, p := start(t)
	servers := many(size, 1)
	apply(t, p, steps(servers)...)
	var took []float64
	for i := range 400 {
		v := servers[i%len(servers)]
		r := plan.RealServer{Addr: v.Reals[0].Addr, Weight: uint32(2 + i%7)}
		began := time.Now()
		apply(t, p, plan.Step{Op: plan.UpdateReal, Key: v.Key, Real: r})
		took = append(took, time.Since(began).Seconds()*1000)
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// takeOver is what a restart and an audit cost.
func takeOver(t *testing.T) {
	n, p := start(t)
	servers := many(10000, 10)
	apply(t, p, steps(servers)...)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	next, err := ipvs.New(kernel.Options{Log: kittest.Logger(t), Journal: n.Journal, ServiceCIDRs: netnstest.Virtual[:], Namespace: n.Node.Path})
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	opened := time.Since(began)
	apply(t, next, steps(servers)...)
	fmt.Printf("restart at 10000 services of 10 endpoints: %.2fs to read, %.2fs in all\n", opened.Seconds(), time.Since(began).Seconds())
	began = time.Now()
	state(t, next)
	fmt.Printf("audit at 10000 services of 10 endpoints: %.2fs\n", time.Since(began).Seconds())
}
