package bgp

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "portolan.dev/api/core/v1"
	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	registryv1 "portolan.dev/api/registry/v1"

	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kit/kittest"
)

var errNotYet = errors.New("not yet")

// holdTime is the default of -bgp-hold-time.
const holdTime = 9 * time.Second

// TestRoutesFollowTheForwarding runs one installation through all that can happen to a route. Times
// are printed.
func TestRoutesFollowTheForwarding(t *testing.T) {
	w := install(t, 3, "")
	w.scale(1, 2, 3)
	w.await(1, 2, 3)
	w.awaitReach()
	t.Run("traffic comes through all nodes", w.usesAllNodes)
	t.Run("communities", w.hasCommunities)
	t.Run("status and metrics", w.showsItsState)
	t.Run("endpoints", w.followsEndpoints)
	t.Run("policy Local", w.followsLocalEndpoints)
	t.Run("drain", w.leavesWhenDraining)
	t.Run("excluded from load balancers", w.leavesWhenExcluded)
	t.Run("planned restart", w.keepsThroughARestart)
	t.Run("killed agent", w.keepsThroughAKill)
	t.Run("agent that does not come back", w.dropsAfterTheRestartTime)
	t.Run("dead node", w.dropsADeadNode)
	t.Run("deleted service", w.dropsADeletedService)
}

// usesAllNodes connects until each node has forwarded a connection, under policy Local, in which each
// node forwards to its own pod.
func (w *world) usesAllNodes(t *testing.T) {
	w.policy(corev1.TrafficPolicy_TRAFFIC_POLICY_LOCAL)
	w.await(1, 2, 3)
	for family, addr := range balanced {
		seen := map[string]bool{}
		kittest.Eventually(t, "connections through each node to "+addr.String(), func() error {
			pod, err := w.reach(addr)
			if err != nil {
				return err
			}
			seen[pod.String()] = true
			for _, node := range w.Nodes {
				if !seen[podAddresses(node)[family].String()] {
					return errNotYet
				}
			}
			return nil
		})
	}
	w.policy(corev1.TrafficPolicy_TRAFFIC_POLICY_CLUSTER)
}

func (w *world) hasCommunities(t *testing.T) {
	for _, addr := range balanced {
		said, err := w.router.ask("show", "route", "all", "for", addr.String())
		if err != nil || strings.Count(said, "(64512,100)") != 3 || strings.Count(said, "(64512, 1, 2)") != 3 {
			t.Errorf("%v\n%s", err, said)
		}
	}
}

func (w *world) showsItsState(t *testing.T) {
	node := w.Nodes[0]
	kittest.Eventually(t, "the status", func() error {
		status, err := node.Agent.GetStatus(t.Context(), &nodeagentv1.GetStatusRequest{})
		if err != nil {
			return err
		}
		r := status.GetRouting()
		if !slices.Equal(r.GetAddresses(), []string{balanced[0].String(), balanced[1].String()}) || len(r.GetPeers()) != 2 || !r.GetEligible() ||
			slices.ContainsFunc(r.GetPeers(), func(p *nodeagentv1.RoutingPeer) bool { return !p.GetEstablished() }) {
			return fmt.Errorf("%v", r)
		}
		return nil
	})
	for series, want := range map[string]float64{
		"portolan_nodeagent_bgp_advertised_routes":                                   2,
		fmt.Sprintf("portolan_nodeagent_bgp_peer_up{peer=%q}", onLAN(100)[0].Addr()): 1,
	} {
		if got := w.Metric(node.Name, series); got != want {
			t.Errorf("%s is %g, want %g", series, got, want)
		}
	}
}

func (w *world) followsEndpoints(t *testing.T) {
	w.after(t, "last_endpoint_gone", func() { w.scale() })
	w.after(t, "first_endpoint", func() { w.scale(2) }, 1, 2, 3)
	w.awaitReach()
	w.scale(1, 2, 3)
}

func (w *world) followsLocalEndpoints(t *testing.T) {
	w.scale(1)
	w.policy(corev1.TrafficPolicy_TRAFFIC_POLICY_LOCAL)
	w.await(1)
	w.awaitReach()
	w.after(t, "local_endpoint_moves", func() { w.scale(2) }, 2)
	w.awaitReach()
	w.policy(corev1.TrafficPolicy_TRAFFIC_POLICY_CLUSTER)
	w.await(1, 2, 3)
	w.scale(1, 2, 3)
}

func (w *world) leavesWhenDraining(t *testing.T) {
	w.after(t, "drain", func() { w.drain(w.Nodes[0], true) }, 2, 3)
	w.drain(w.Nodes[0], false)
	w.await(1, 2, 3)
}

func (w *world) leavesWhenExcluded(t *testing.T) {
	const label = "node.kubernetes.io/exclude-from-external-load-balancers"
	node := func(labels map[string]string) *corev1.Node {
		return &corev1.Node{Metadata: &corev1.ObjectMeta{Name: w.Nodes[1].Name, Labels: labels}}
	}
	w.after(t, "excluded", func() { w.apply(node(map[string]string{label: ""})) }, 1, 3)
	w.apply(node(nil))
	w.await(1, 2, 3)
}

// keepsThroughARestart restarts an agent as a supervisor does.
func (w *world) keepsThroughARestart(t *testing.T) { w.restart(t, w.Nodes[0].Process.Stop) }

// keepsThroughAKill restarts an agent that was killed.
func (w *world) keepsThroughAKill(t *testing.T) { w.restart(t, w.Nodes[0].Process.Kill) }

// restart ends the agent of the first node and starts it again. The router keeps its routes all the
// time, and every connection of the client is served.
func (w *world) restart(t *testing.T, end func()) {
	node := w.Nodes[0]
	begun := time.Now()
	stop := w.router.watch()
	end()
	for _, addr := range balanced {
		for range 20 {
			if _, err := w.reach(addr); err != nil {
				t.Errorf("%s, while the agent does not run: %v", addr, err)
			}
		}
	}
	w.StartAgent(node)
	w.awaitSessions(t, 0)
	t.Logf("agent_ended_to_sessions_seconds: %.3f", time.Since(begun).Seconds())
	for addr, seen := range stop() {
		for _, hops := range seen {
			if !slices.Equal(hops, []int{1, 2, 3}) {
				t.Errorf("%s: the router also forwarded through %v", addr, hops)
			}
		}
	}
	w.await(1, 2, 3)
}

// awaitSessions waits until the agent of a node has both of its sessions, and the router has replaced
// or dropped the routes that it had kept.
func (w *world) awaitSessions(t *testing.T, n int) {
	t.Helper()
	kittest.Eventually(t, "the sessions of "+w.Nodes[n].Name, func() error {
		for _, channel := range []string{"ipv4", "ipv6"} {
			name := fmt.Sprintf("n%d_%s", n+1, channel)
			said, err := w.router.ask("show", "protocols", "all", name)
			if err != nil || !strings.Contains(said, "Established") || strings.Contains(said, "graceful restart active") || !strings.Contains(said, "1 imported") {
				return fmt.Errorf("%s: %v %s", name, err, said)
			}
		}
		return nil
	})
}

// dropsAfterTheRestartTime kills an agent and does not start it again. Its restart time is short.
func (w *world) dropsAfterTheRestartTime(t *testing.T) {
	node, flags := w.Nodes[0], w.flags["nodeagent"]
	w.flags["nodeagent"] = append(slices.Clone(flags), "-bgp-graceful-restart", "3s")
	node.Process.Stop()
	w.StartAgent(node)
	w.awaitSessions(t, 0)
	w.after(t, "killed_agent_with_a_restart_time_of_3s", node.Process.Kill, 2, 3)
	w.flags["nodeagent"] = flags
	w.StartAgent(node)
	w.await(1, 2, 3)
}

// dropsADeadNode kills a node and waits until the router has no route through it.
func (w *world) dropsADeadNode(t *testing.T) {
	if took := w.after(t, "dead_node", func() { w.kill(t, w.Nodes[2]) }, 1, 2); took > holdTime+20*time.Second { // far more than a loaded machine needs, and less than BIRD's own hold time
		t.Errorf("the route went after %s", took)
	}
	w.awaitReach()
}

// kill cuts a node off from the network and kills its processes.
func (w *world) kill(t *testing.T, node *labtest.Node) {
	t.Helper()
	node.Namespace.Down(t, "lan")
	node.Process.Kill()
}

func (w *world) dropsADeletedService(t *testing.T) {
	w.after(t, "deleted", func() { w.delete(t) })
}

func (w *world) delete(t *testing.T) {
	t.Helper()
	if _, err := registryv1.NewServiceServiceClient(w.Conn).DeleteService(w.Context(), &registryv1.DeleteServiceRequest{Namespace: "default", Name: "web"}); err != nil {
		t.Fatal(err)
	}
}

// TestBFDFindsADeadNode checks BFD and passwords, with sessions that end with the agent.
func TestBFDFindsADeadNode(t *testing.T) {
	const password = "correct horse"
	w := install(t, 2, fmt.Sprintf("bfd on; password %q;", password),
		"-bgp-bfd", "300ms", "-bgp-graceful-restart", "0s", "-bgp-hold-time", "90s", "-bgp-password-file", kittest.SecretFile(t, password+"\n"))
	w.scale(1, 2)
	w.await(1, 2)
	w.awaitReach()
	kittest.Eventually(t, "the sessions of BFD", func() error {
		said, err := w.router.ask("show", "bfd", "sessions")
		if err != nil || strings.Count(said, " Up ") != 4 {
			return fmt.Errorf("%v %s", err, said)
		}
		return nil
	})
	w.after(t, "stopped_agent", w.Nodes[0].Process.Stop, 2)
	w.StartAgent(w.Nodes[0])
	w.await(1, 2)
	w.after(t, "dead_node_by_bfd", func() { w.kill(t, w.Nodes[1]) }, 1) // the wait is shorter than the hold time
	w.awaitReach()
}
