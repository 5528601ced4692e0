package verifier

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"

	"portolan.dev/allocator/pool"
)

func node(name string, addresses ...string) *corev1.Node {
	n := &corev1.Node{Metadata: &corev1.ObjectMeta{Name: name, Uid: "uid-" + name}, Status: &corev1.NodeStatus{
		Addresses: []*corev1.NodeAddress{{Type: "Hostname", Address: name}},
	}}
	for _, a := range addresses {
		n.Status.Addresses = append(n.Status.Addresses, &corev1.NodeAddress{Type: "InternalIP", Address: a})
	}
	return n
}

// wantNodeAddresses checks the metric.
func (w *testVerifier) wantNodeAddresses(n string) {
	w.Helper()
	want := `
# HELP portolan_allocator_node_addresses_in_pools Addresses of nodes that lie in the range of a pool.
# TYPE portolan_allocator_node_addresses_in_pools gauge
portolan_allocator_node_addresses_in_pools ` + n + "\n"
	if err := testutil.GatherAndCompare(w.metrics, strings.NewReader(want), "portolan_allocator_node_addresses_in_pools"); err != nil {
		w.Error(err)
	}
}

// TestNodesInPoolsAreReported adds nodes with addresses in existing pools. Each is reported once, and
// again if it comes back.
func TestNodesInPoolsAreReported(t *testing.T) {
	w := newTestVerifier(t, node("n1", "192.0.2.1", "10.96.0.9"))
	w.passGrace()
	const n1 = "n1 NodeAddressInPool status.addresses: 10.96.0.9 lies in pool ips (10.96.0.0/24)"
	w.wantEvents(n1)
	w.wantNodeAddresses("1")

	w.feed.Put(node("n2", "10.98.0.0", "fd00::1"), node("n3", "10.99.0.1"))
	w.passGrace()
	w.wantEvents("n2 NodeAddressInPool status.addresses: 10.98.0.0 lies in pool lb (10.98.0.0/24)")
	w.wantNodeAddresses("2")

	w.feed.Put(node("n1", "192.0.2.1"))
	w.feed.Delete(object.KeyOf(node("n2")))
	w.passGrace()
	w.wantEvents()
	w.wantNodeAddresses("0")

	w.feed.Put(node("n1", "10.96.0.9"))
	w.passGrace()
	w.wantEvents(n1)
	if typ := w.registry.types[nodeInPool]; typ != corev1.EventType_EVENT_TYPE_WARNING {
		t.Errorf("the event is of type %s, want a warning", typ)
	}
}

func TestNodeInARange(t *testing.T) {
	w := newTestVerifier(t, node("n2", "10.1.0.2"), node("n1", "10.2.0.1", "10.1.0.3", "10.1.0.1", "fd00::1"))
	for _, c := range []struct{ text, node, address string }{
		{"10.1.0.0/24", "n1", "10.1.0.1"},
		{"10.1.0.2/32", "n2", "10.1.0.2"},
		{"fd00::/112", "n1", "fd00::1"},
		{"10.3.0.0/16", "", "invalid IP"},
		{"1-65535", "", "invalid IP"},
	} {
		space, err := pool.Parse(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if name, address := w.verifier.NodeIn(space); name != c.node || address.String() != c.address {
			t.Errorf("in %s: %q %s, want %q %s", c.text, name, address, c.node, c.address)
		}
	}
}
