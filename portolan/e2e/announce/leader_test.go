package announce

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// leaderDeaths is the number of leaders that are killed one after the other.
var leaderDeaths = kittest.Repetitions(3, 10)

// tooSlow is a time without an answer that is only possible if an agent takes longer to reach the new
// leader than the rights of the former one last.
const tooSlow = 4 * time.Second

// replica is an lbctl.
type replica struct {
	at, health string
	process    *labtest.Process
}

// TestTheLeaderDies kills the leading one of two lbctls again and again. No address moves, a connection
// that was handed over goes on, and the longest time without an answer is printed.
func TestTheLeaderDies(t *testing.T) {
	replicas := map[string]*replica{}
	var at []string
	for n := range 2 {
		r := &replica{at: fmt.Sprintf("172.31.0.1:74%d6", n), health: fmt.Sprintf("172.31.0.1:75%d6", n)}
		replicas[r.at], at = r, append(at, r.at)
	}
	l := build(t, kernelModes(t)[0], map[string][]string{
		"nodeagent": {"-lbctl", at[0] + "," + at[1]}, "allocator": {"-load-balancer-pool", "192.168.77.48/28,fd77::/120"},
	})
	for _, r := range replicas {
		l.startLBCtl(t, r)
	}
	l.makeService(map[string]string{object.AnnotationBalancerIPs: balanced[0].String() + "," + balanced[1].String()})
	first, _ := l.announcer(t, balanced[0], "")
	early := l.steady(t, balanced[0])
	l.drain(t, l.node(first), true) // so that the owner is not the one that a new leader would choose
	var owners [2]string
	kittest.Eventually(t, "the next node", func() error {
		if owners[0], _ = l.announcer(t, balanced[0], ""); owners[0] == first {
			return fmt.Errorf("it is still %s", first)
		}
		return nil
	})
	l.drain(t, l.node(first), false)
	owners[1], _ = l.announcer(t, balanced[1], "")
	l.ask(t)
	var gaps []time.Duration
	for range leaderDeaths {
		for n, addr := range balanced {
			l.answered(t, addr, owners[n], len(l.capture.all()))
		}
		before := len(l.capture.all())
		_, leader := l.announcer(t, balanced[0], "")
		r := replicas[leader]
		r.process.Kill()
		for n, addr := range balanced {
			if next, _ := l.announcer(t, addr, leader); next != owners[n] {
				l.answered(t, addr, next, before)
				if gap := l.longestGap(addr, before); gap > tooSlow {
					t.Skipf("allowed: the machine is too slow, an agent has not reached the new leader in %s", gap)
				}
				t.Fatalf("%s has moved from %s to %s", addr, owners[n], next)
			}
			l.answered(t, addr, owners[n], len(l.capture.all()))
			gaps = append(gaps, l.longestGap(addr, before))
		}
		early.goesOn(t, "under the next leader")
		l.checkOrder(t, before)
		l.startLBCtl(t, r)
	}
	early.stop()
	slices.Sort(gaps)
	t.Logf("leader_killed_without_answer_seconds: median %.2f, longest %.2f of %d", gaps[len(gaps)/2].Seconds(), gaps[len(gaps)-1].Seconds(), len(gaps))
}

// startLBCtl starts a replica, and waits until it is ready.
func (l *lan) startLBCtl(t *testing.T, r *replica) {
	t.Helper()
	r.process = labtest.Start(t, "lbctl at "+r.at, "lbctl", l.Hub, []string{
		"-addr", r.at, "-http-addr", r.health, "-log-format", "json", "-nats-url", l.NATS(), "-insecure",
		"-registry", l.RegistryAt().String(), "-allocator", l.AllocatorAt().String(),
	})
	client := labtest.HTTPIn(l.Hub)
	kittest.Eventually(t, "lbctl", func() error { return labtest.Ready(client, "http://"+r.health) })
}

// announcer waits until a node announces an address by another leader than a former one, and returns
// the node and its leader.
func (l *lan) announcer(t *testing.T, addr netip.Addr, former string) (node, leader string) {
	t.Helper()
	kittest.Eventually(t, "a node that announces "+addr.String(), func() error {
		for _, n := range l.Nodes {
			status, err := n.Agent.GetStatus(t.Context(), &nodeagentv1.GetStatusRequest{})
			if err != nil {
				return err
			}
			a := status.GetAnnouncing()
			announces := slices.ContainsFunc(a.GetAddresses(), func(one *nodeagentv1.AnnouncedAddress) bool { return one.GetAddress() == addr.String() })
			if announces && a.GetController() != "" && a.GetController() != former {
				node, leader = n.Name, a.GetController()
				return nil
			}
		}
		return errors.New("none")
	})
	return node, leader
}

// longestGap returns the longest time between two answers for an address, among the claims after the
// first ones.
func (l *lan) longestGap(addr netip.Addr, after int) (longest time.Duration) {
	var last time.Time
	for _, c := range l.capture.all()[after:] {
		if c.address != addr || !c.answer {
			continue
		}
		if !last.IsZero() {
			longest = max(longest, c.at.Sub(last))
		}
		last = c.at
	}
	return longest
}
