package rules

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/view"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// Indexes are the indexes that the rules of the kinds use.
type Indexes struct {
	ClusterIPs    *view.Index // services by virtual IP
	NodeAddresses *view.Index // nodes by address
	// ExternalAddresses are services by external IP and by virtual address of a load balancer.
	ExternalAddresses *view.Index
	PodRanges         *view.Index // nodes with pod ranges, all under podRangesKey and each under podRangesOf
	Backends          *view.Index // pods, EndpointSlices and Endpoints by address, if it is in a range of virtual IPs
	Events            *view.Index // events by content, see eventIdentity
	Owners            *view.Index // dependents by the UID of an owner
	UIDs              *view.Index // objects by UID
}

// NewIndexes returns empty indexes for an installation with these ranges of virtual IPs.
func NewIndexes(virtualIPs []netip.Prefix) *Indexes {
	return &Indexes{
		ClusterIPs:        view.NewIndex(clusterIPs),
		NodeAddresses:     view.NewIndex(nodeAddresses),
		ExternalAddresses: view.NewIndex(externalAddresses),
		PodRanges:         view.NewIndex(podRanges),
		Backends:          view.NewIndex(func(item *view.Item) []string { return backendsWithin(virtualIPs, item) }),
		Events:            view.NewIndex(eventKey),
		Owners:            view.NewIndex(ownerUIDs),
		UIDs:              view.NewIndex(func(item *view.Item) []string { return []string{item.Object.GetMetadata().GetUid()} }),
	}
}

// List returns the indexes for view.Config.
func (x *Indexes) List() []*view.Index {
	return []*view.Index{x.ClusterIPs, x.NodeAddresses, x.ExternalAddresses, x.PodRanges, x.Backends, x.Events, x.Owners, x.UIDs}
}

// canonicalAddress returns the canonical spelling of an address. A string that is not an address is
// returned unchanged.
func canonicalAddress(address string) string {
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	return addr.Unmap().String()
}

func clusterIPs(item *view.Item) []string {
	svc, ok := item.Object.(*corev1.Service)
	if !ok || !object.NeedsClusterIP(svc) {
		return nil
	}
	keys := make([]string, 0, len(svc.GetSpec().GetClusterIps()))
	for _, ip := range svc.GetSpec().GetClusterIps() {
		keys = append(keys, canonicalAddress(ip))
	}
	return keys
}

// backendsWithin returns the addresses of backends that lie in the ranges of virtual IPs. Most
// installations have none, so the index takes no memory.
func backendsWithin(virtualIPs []netip.Prefix, item *view.Item) []string {
	var keys []string
	add := func(address string) {
		addr, err := netip.ParseAddr(address)
		if err == nil && slices.ContainsFunc(virtualIPs, func(p netip.Prefix) bool { return p.Contains(addr.Unmap()) }) {
			keys = append(keys, addr.Unmap().String())
		}
	}
	switch o := item.Object.(type) {
	case *corev1.Pod:
		for _, ip := range o.GetStatus().GetPodIps() {
			add(ip)
		}
	case *corev1.EndpointSlice:
		for _, endpoint := range o.GetEndpoints() {
			for _, address := range endpoint.GetAddresses() {
				add(address)
			}
		}
	case *corev1.Endpoints:
		for _, subset := range o.GetSubsets() {
			for _, address := range slices.Concat(subset.GetAddresses(), subset.GetNotReadyAddresses()) {
				add(address.GetIp())
			}
		}
	}
	return keys
}

func nodeAddresses(item *view.Item) []string {
	node, ok := item.Object.(*corev1.Node)
	if !ok {
		return nil
	}
	return nodeIPs(node)
}

// externalAddresses returns the addresses outside the cluster for which nodes take the traffic.
func externalAddresses(item *view.Item) []string {
	svc, ok := item.Object.(*corev1.Service)
	if !ok {
		return nil
	}
	var keys []string
	for _, ip := range svc.GetSpec().GetExternalIps() {
		keys = append(keys, canonicalAddress(ip))
	}
	for _, ingress := range svc.GetStatus().GetLoadBalancer().GetIngress() {
		if ingress.GetIp() != "" && ingress.GetIpMode() != corev1.IPMode_IP_MODE_PROXY {
			keys = append(keys, canonicalAddress(ingress.GetIp()))
		}
	}
	return keys
}

// podRangesKey is the key of all nodes in the index PodRanges.
const podRangesKey = "ranges"

// podRangesOf returns the key of one node in the index PodRanges.
func podRangesOf(node string) string { return "of node " + node }

func podRanges(item *view.Item) []string {
	if node, ok := item.Object.(*corev1.Node); ok && len(node.GetSpec().GetPodCidrs()) > 0 {
		return []string{podRangesKey, podRangesOf(node.GetMetadata().GetName())}
	}
	return nil
}

func ownerUIDs(item *view.Item) []string {
	var keys []string
	for _, owner := range item.Object.GetMetadata().GetOwnerReferences() {
		keys = append(keys, owner.GetUid())
	}
	return keys
}

func eventKey(item *view.Item) []string {
	event, ok := item.Object.(*corev1.Event)
	if !ok {
		return nil
	}
	return []string{eventIdentity(event)}
}

// eventIdentity returns a key that is equal for events that repeat each other.
func eventIdentity(event *corev1.Event) string {
	regarding := event.GetRegarding()
	return strings.Join([]string{
		event.GetMetadata().GetNamespace(), regarding.GetKind(), regarding.GetNamespace(), regarding.GetName(), regarding.GetUid(), regarding.GetFieldPath(),
		event.GetReason(), spec.EnumName(event.GetType()), event.GetReportingComponent(), event.GetReportingInstance(), event.GetMessage(),
	}, "\x00")
}
