package nftables_test

import (
	"flag"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"time"

	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/dataplane/dataplanetest/netnstest"
	"portolan.dev/nodeagent/kerneltest"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/yardstick"
)

var (
	measure = flag.Bool("measure", false, "measure, which takes a minute")
	rounds  = flag.Int("rounds", 5, "how often full loads are measured; the median counts")
)

// TestMeasure measures how long it takes to load and change many services, on the machine's own
// kernel if possible.
func TestMeasure(t *testing.T) {
	if !*measure {
		t.Skip("allowed: measures only when asked to, with -measure")
	}
	kerneltest.Need(t)
	for _, size := range []struct {
		name            string
		servers, behind int
		target          yardstick.Target
	}{
		{"load10k", 10000, 1, yardstick.AtMost(0.3)},
		{"load10kx10", 10000, 10, yardstick.Target{}},
		{"load1kx100", 1000, 100, yardstick.Target{}},
	} {
		var took, busy []float64
		for range *rounds {
			seconds, cpu := loadAll(t, netnstest.Servers(size.servers, size.behind))
			took, busy = append(took, seconds), append(busy, cpu)
		}
		fmt.Printf("nftables %s: seconds %.3f, of the processor %.3f\n", size.name, took, busy)
		ratio("nft_"+size.name+"_seconds", median(took), size.target)
	}
	small, large := changes(t, 100), changes(t, 10000)
	fmt.Printf("nftables, one change: %.3f ms at 100 services, %.3f at 10000\n", small, large)
	ratio("nft_change_at_10k_vs_100", large/small, yardstick.AtMost(1.2))
	takeOver(t)
}

func ratio(name string, value float64, target yardstick.Target) {
	fmt.Println(yardstick.Line(name, value, target))
}

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// loadAll returns the time of a full load, and the fraction of it in which the processor works for
// this process.
func loadAll(t *testing.T, servers []*plan.VirtualServer) (took, cpu float64) {
	_, p := start(t)
	todo := dataplanetest.Changes(servers...)
	began, used := time.Now(), yardstick.CPUOfSelf().Seconds()
	netnstest.Apply(t, p, todo)
	took, cpu = time.Since(began).Seconds(), yardstick.CPUOfSelf().Seconds()-used
	if err := p.Cleanup(); err != nil {
		t.Fatal(err)
	}
	return took, cpu
}

// changes returns the median time to add or remove an endpoint, in milliseconds.
func changes(t *testing.T, size int) float64 {
	_, p := start(t)
	servers := netnstest.Servers(size, 1)
	netnstest.Program(t, p, servers...)
	var took []float64
	for i := range 1000 {
		v := servers[i%len(servers)]
		r := plan.RealServer{Addr: netip.AddrPortFrom(v.Reals[0].Addr.Addr(), 9999), Weight: 1}
		more := *v
		more.Reals = append(v.Reals[:len(v.Reals):len(v.Reals)], r)
		for _, now := range []*plan.VirtualServer{&more, v} {
			began := time.Now()
			netnstest.Program(t, p, now)
			took = append(took, time.Since(began).Seconds()*1000)
		}
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
	next, err := open(n.Node.Path, n.Journal, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	opened := time.Since(began)
	netnstest.Program(t, next, servers...)
	fmt.Printf("nftables, restart at 10000 services of 10 endpoints: %.2fs to read, %.2fs in all\n", opened.Seconds(), time.Since(began).Seconds())
	began = time.Now()
	if got := netnstest.State(t, next); len(got.Servers) != len(servers) {
		t.Errorf("%d servers, want %d", len(got.Servers), len(servers))
	}
	fmt.Printf("nftables, audit at 10000 services of 10 endpoints: %.2fs\n", time.Since(began).Seconds())
}
