package verifier

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/object"

	"portolan.dev/allocator/pool"
)

// nodeInPool is the reason of an event on a node with an address in the range of a pool.
const nodeInPool = "NodeAddressInPool"

// nodeAddress is an address of a node.
type nodeAddress struct {
	node    *corev1.Node
	address netip.Addr
}

// NodeIn returns the first node, by name, that has an address in a range, and that address. It
// returns "" if there is none among the nodes of the view.
func (v *Verifier) NodeIn(space pool.Space) (node string, address netip.Addr) {
	for _, a := range v.nodeAddresses() {
		if contains(space, a.address) {
			return a.node.GetMetadata().GetName(), a.address
		}
	}
	return "", netip.Addr{}
}

// contains reports whether an address lies in a range. The range's network and broadcast addresses
// count, although they are not allocated.
func contains(space pool.Space, a netip.Addr) bool {
	return space.IsAddresses() && space.Prefix().Contains(a)
}

// nodeAddresses returns the addresses of all nodes in the view, ordered by node and address. Names
// among them are left out.
func (v *Verifier) nodeAddresses() []nodeAddress {
	var all []nodeAddress
	for _, node := range v.view.nodes() {
		for _, a := range node.GetStatus().GetAddresses() {
			if address, err := netip.ParseAddr(a.GetAddress()); err == nil {
				all = append(all, nodeAddress{node, address.Unmap()})
			}
		}
	}
	slices.SortFunc(all, func(a, b nodeAddress) int {
		return cmp.Or(strings.Compare(a.node.GetMetadata().GetName(), b.node.GetMetadata().GetName()), a.address.Compare(b.address))
	})
	return slices.Compact(all)
}

// reportNodes reports the nodes that have an address in a pool. The API refuses a pool over the
// address of a node, but a node may come later, and pools of the configuration are created before
// the nodes are known.
func (v *Verifier) reportNodes(ctx context.Context) {
	inPools := 0
	addresses := v.nodeAddresses()
	for _, p := range v.cfg.Engine.Pools() {
		space, err := pool.Parse(p.Range)
		if err != nil {
			v.cfg.Log.Error("range of a pool is not readable", "pool", p.Name, "err", err)
			continue
		}
		for _, a := range addresses {
			if contains(space, a.address) {
				inPools++
				v.cfg.Guard.Run(stepNode, guard.Object(object.KeyOf(a.node)), func() { v.reportNode(ctx, a, p.Name, p.Range) })
			}
		}
	}
	v.metrics.nodeAddresses.Set(float64(inPools))
}

func (v *Verifier) reportNode(ctx context.Context, a nodeAddress, name, text string) {
	v.reportOnce(ctx, a.node, eventSubject{uid: a.node.GetMetadata().GetUid(), field: "status.addresses/" + a.address.String()}, event{
		typ: corev1.EventType_EVENT_TYPE_WARNING, reason: nodeInPool, subject: name,
		message: fmt.Sprintf("status.addresses: %s lies in pool %s (%s), so that a service may get the address of this node; give the node another address, or drain the pool and create one apart from the nodes",
			a.address, name, text),
	})
}
