package parity

import (
	"flag"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "portolan.dev/api/core/v1"
)

var measure = flag.Bool("measure", false, "measure, which takes a minute")

// Sizes of the measurement.
const (
	rounds = 100
	// quiet is the time without connections to a pod after which the previous connection counts as
	// the last.
	quiet = 200 * time.Millisecond
	// between is the pause between a client's connections.
	between = 5 * time.Millisecond
)

// TestMeasure measures, by connections from all nodes, how long a new service takes until every
// node reaches it, and how long a pod that is no longer ready still gets connections. It replaces
// service_latency.go, which measures only until the endpoints are stored.
func TestMeasure(t *testing.T) {
	if !*measure {
		t.Skip("allowed: measures only when asked to, with -measure")
	}
	s := newScene(t, install(t))
	var reachable, left []time.Duration
	pods := s.three()
	vip := clusterIP(s.service("web", nil), 80)
	s.reaches(s.lab.Nodes[0].Namespace, vip, pods...)
	for n := range rounds {
		reachable = append(reachable, s.measureNew(n))
	}
	gone := s.pod("web", 0, gated)
	for range rounds {
		gone.open(true)
		s.reaches(s.lab.Nodes[0].Namespace, vip, append(pods[:3:3], gone)...)
		left = append(left, s.measureLeft(vip, gone))
	}
	report("created until reachable from all nodes", reachable)
	report("not ready until the last connection   ", left)
}

// measureNew makes a service of ready pods and waits until all nodes have reached it.
func (s *scene) measureNew(n int) time.Duration {
	s.Helper()
	// The address is chosen, so that clients know it beforehand.
	addr := nth(netip.MustParsePrefix("10.96.0.0/24"), uint32(100+n))
	name, began := fmt.Sprintf("new-%d", n), time.Now()
	s.service(name, func(spec *corev1.ServiceSpec) {
		spec.ClusterIp, spec.ClusterIps, spec.Selector = addr.String(), []string{addr.String()}, map[string]string{"app": "web"}
	})
	var nodes sync.WaitGroup
	for _, node := range s.lab.Nodes {
		nodes.Go(func() {
			for {
				if _, err := get(node.Namespace, netip.AddrPortFrom(addr, 80)); err == nil || time.Since(began) > time.Minute {
					return
				}
				<-time.After(between)
			}
		})
	}
	nodes.Wait()
	took := time.Since(began)
	s.deleteService(name) // a change of a pod in many services would reach all of them
	return took
}

// measureLeft makes a pod not ready and waits until no node connects to it any more.
func (s *scene) measureLeft(vip netip.AddrPort, gone *pod) time.Duration {
	s.Helper()
	var mu sync.Mutex
	began := time.Now()
	last := began
	var nodes sync.WaitGroup
	for _, node := range s.lab.Nodes {
		nodes.Go(func() {
			for {
				at := time.Now()
				a, err := get(node.Namespace, vip)
				mu.Lock()
				if err == nil && a.pod == gone.name && at.After(last) {
					last = at
				}
				over := time.Since(last) > quiet
				mu.Unlock()
				if over {
					return
				}
				<-time.After(between)
			}
		})
	}
	gone.open(false)
	nodes.Wait()
	return last.Sub(began)
}

// report prints the quantiles.
func report(what string, all []time.Duration) {
	slices.Sort(all)
	at := func(q float64) time.Duration {
		return all[min(len(all)-1, int(q*float64(len(all))))].Round(time.Millisecond)
	}
	fmt.Printf("%s: p50 %s, p90 %s, p99 %s of %d\n", what, at(0.5), at(0.9), at(0.99), len(all))
}
