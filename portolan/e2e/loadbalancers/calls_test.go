package loadbalancers

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/lbctl"
	"portolan.dev/services/kit/kittest"
)

// callCounter counts the calls of a provider.
type callCounter struct {
	mu    sync.Mutex
	calls map[string]int // guarded by mu
}

func (c *callCounter) before(_ context.Context, call, _ string) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[call]++
	return false, nil
}

// reset begins to count anew, and returns the calls until then.
func (c *callCounter) reset() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.calls
	c.calls = map[string]int{}
	return before
}

// await waits until the provider was called so often.
func (c *callCounter) await(t *testing.T, want map[string]int) {
	t.Helper()
	kittest.Eventually(t, fmt.Sprintf("the calls %v", want), func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !maps.Equal(c.calls, want) {
			return fmt.Errorf("there were %v", c.calls)
		}
		return nil
	})
}

// TestAProviderIsCalledForWhatItNeeds counts the calls while nodes begin to announce an address, which
// changes nothing for the provider, and while the nodes and the service change. The last change shows
// that no call was still to come.
func TestAProviderIsCalledForWhatItNeeds(t *testing.T) {
	p, counter := newProvider(t), &callCounter{calls: map[string]int{}}
	p.Mode = corev1.IPMode_IP_MODE_VIP
	p.Fail(counter.before, nil)
	i := install(t, p.serves(metal), func(c *lbctl.Config) { c.Addr, c.AnnounceAnySubnet = freeAddr(t), true })
	nodes := registryv1.NewNodeServiceClient(i.dial("registry"))
	node := func(name string) {
		if _, err := nodes.CreateNode(t.Context(), &registryv1.CreateNodeRequest{Node: &corev1.Node{Metadata: &corev1.ObjectMeta{Name: name}}}); err != nil {
			t.Fatal(err)
		}
	}
	i.create(balanced("first", class(metal)))
	i.awaitAddresses("first", 1)
	node("a")
	i.delete("first")
	i.awaitGone("first")
	counter.reset()

	i.create(balanced("web", class(metal)))
	got := i.awaitAddresses("web", 1)[0]
	i.awaitAnnounced("web", corev1.ConditionStatus_CONDITION_STATUS_FALSE,
		"nobody announces "+got+": no node agent is connected: set -announce-interfaces and -lbctl of the agents")
	i.update("web", port(82))
	kittest.Eventually(t, "the provider to know the port", func() error {
		if all := p.Balancers(); len(all) != 1 || all[0].Ports[0].GetPort() != 82 {
			return fmt.Errorf("it has %v", all)
		}
		return nil
	})
	// One call makes the load balancer, one has the address in the status and may also have the new port,
	// and one more follows if lbctl sees its own write late.
	if first := counter.reset(); first["Ensure"] < 2 || first["Ensure"] > 4 || first["Update"] > 0 {
		t.Errorf("the calls are %v, want 2 to 4 times Ensure", first)
	}
	a := i.connect("a")
	a.awaitAnnouncing(got)
	i.awaitAnnounced("web", corev1.ConditionStatus_CONDITION_STATUS_TRUE, "node a announces "+got)
	if err := a.stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	node("b")
	counter.await(t, map[string]int{"Update": 1})
	i.connect("b").awaitAnnouncing(got)
	i.awaitAnnounced("web", corev1.ConditionStatus_CONDITION_STATUS_TRUE, "node b announces "+got)

	i.update("web", port(81))
	counter.await(t, map[string]int{"Ensure": 1, "Update": 1})
	i.update("web", annotate("example.com/speed", "fast"))
	counter.await(t, map[string]int{"Ensure": 2, "Update": 1})
}
