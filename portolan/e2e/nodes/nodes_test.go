package nodes

import (
	"encoding/json"
	"net"
	"strings"
	"testing"

	"portolan.dev/services/kit/kittest"
)

// TestWaitForEveryNode checks wait with three working nodes, with a failing one, with a silent one,
// and with all working again.
func TestWaitForEveryNode(t *testing.T) {
	c := start(t, 3)
	c.apply(service("web", c.free(), "n1"))
	c.expect(0, []string{"wait", "service/web", "--applied", "--timeout", "60s"}, "service default/web is programmed on 3 of 3 nodes at revision")
	c.expect(0, []string{"describe", "service", "web"}, "programmed on 3 of 3 nodes")
	c.expect(0, []string{"explain", "service", "web"}, "programmed on 3 of 3 nodes", "node n1: userspace")

	taken := c.free()
	foreign, err := net.Listen("tcp", taken.String())
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	c.apply(service("blocked", taken, "n1"))
	c.fails()
	// The other nodes are not affected, and neither are other services of the node.
	c.expect(0, []string{"wait", "svc", "blocked", "--applied", "--nodes", "topology.kubernetes.io/zone in (z2,z3)", "--timeout", "60s"}, "2 of 2 nodes")
	c.expect(0, []string{"wait", "svc", "web", "--applied", "--timeout", "60s"}, "3 of 3 nodes")

	c.agents["n3"].stop()
	c.expect(1, []string{"wait", "svc/web", "--applied", "--timeout", "0"}, "2 of 3 nodes", "n3: silent: its agent has not been heard of for")
	c.expect(0, []string{"describe", "svc", "web"}, "programmed on 2 of 3 nodes", "n3: silent")
	c.expect(1, []string{"wait", "svc/blocked", "--applied", "--timeout", "0"}, "1 of 3 nodes", "n1: failing", "n3: silent")
	c.expect(0, []string{"wait", "svc/web", "--applied", "--nodes", "topology.kubernetes.io/zone!=z3", "--timeout", "60s"}, "2 of 2 nodes")
	c.expect(1, []string{"wait", "svc/web", "--applied", "--nodes", "zone=none"}, "no node with an agent has the labels zone=none")

	// A waiting command ends when both faults are over.
	done := make(chan string, 1)
	go func() {
		code, out, errOut := c.portolan("", "wait", "svc/blocked", "--applied", "--timeout", "-1s")
		if code != 0 {
			out = "failed: " + errOut
		}
		done <- out
	}()
	foreign.Close()
	c.startAgent("n3")
	if out := kittest.Receive(t, "the end of the wait", done); !strings.Contains(out, "programmed on 3 of 3 nodes") {
		t.Error(out)
	}
	c.expect(0, []string{"explain", "service", "blocked"}, "programmed on 3 of 3 nodes")
	c.expect(1, []string{"wait", "svc/none", "--applied"}, `Service "default/none" not found`)
}

// fails checks the output of all commands about a node that cannot forward a service.
func (c *cluster) fails() {
	c.Helper()
	const why = "address already in use"
	c.expect(1, []string{"wait", "svc", "blocked", "--applied", "--timeout", "0"}, "2 of 3 nodes", "n1: failing", why)
	c.expect(0, []string{"describe", "svc", "blocked"}, "programmed on 2 of 3 nodes", "n1: failing", why, "FailedToListen")
	c.expect(1, []string{"explain", "svc", "blocked"}, "programmed on 2 of 3 nodes", "node n1: userspace", why, "the chain breaks at: nodes")
	c.expect(0, []string{"node", "plan", "n1", "blocked"}, "NOT in force", "pending at revision", "tried again in")
	c.expect(0, []string{"node", "plan", "n1"}, "pending at revision", why)
	c.expect(0, []string{"node", "plan", "n2", "blocked"}, "on another node (policy Local)", "nothing is pending")
	c.expect(0, []string{"node", "status", "n1"}, "default/blocked", why, "another program")
	c.expect(0, []string{"node", "status"}, "failing", "n2", "ok")
}

// TestNodeCommands checks the node commands, and their errors.
func TestNodeCommands(t *testing.T) {
	c := start(t, 2)
	c.apply(service("web", c.free(), "n1"))
	c.expect(0, []string{"wait", "svc/web", "--applied", "--timeout", "60s"})
	c.expect(0, []string{"node", "drain", "n2"}, "the node drains")
	c.expect(0, []string{"node", "status", "n2"}, "Draining:", "true")
	c.expect(0, []string{"node", "undrain", "n2"}, "the node does not drain")
	c.expect(0, []string{"node", "resync", "n1"}, "nothing to repair")

	c.expect(1, []string{"node", "status", "n22"}, `node "n22" is not known; did you mean n2?`)
	c.expect(1, []string{"node", "resync", "n1", "--agent", "127.0.0.1:1"}, "the agent of node n1 at 127.0.0.1:1 does not answer (last heard of", "-advertise-addr")
	c.expect(1, []string{"node", "plan", "n1", "none"}, "not found")
	c.agents["n2"].stop()
	c.expect(1, []string{"node", "status", "n2"}, "does not answer")
	c.expect(0, []string{"node", "status"}, "silent for")

	for _, args := range [][]string{{"node", "status"}, {"node", "status", "n1"}, {"node", "plan", "n1", "web"}, {"node", "resync", "n1"}, {"node", "drain", "n1"}} {
		code, out, errOut := c.portolan("", append(args, "-o", "json")...)
		var document map[string]any
		if err := json.Unmarshal([]byte(out), &document); code != 0 || err != nil || len(document) == 0 {
			t.Errorf("%v -o json: exit code %d, %v:\n%s%s", args, code, err, out, errOut)
		}
	}
	c.expect(0, []string{"node", "status", "n1", "-o", "yaml"}, "node: n1\n", "proxyMode: userspace\n")
}
