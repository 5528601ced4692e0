package spec

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// PendingLoadBalancer returns the reason why a service of type LoadBalancer has no address yet. It
// returns the empty string if the service has an address or another type.
func PendingLoadBalancer(svc *corev1.Service) string {
	if !IsLoadBalancer(svc) || len(svc.GetStatus().GetLoadBalancer().GetIngress()) > 0 {
		return ""
	}
	for _, c := range svc.GetStatus().GetConditions() {
		if c.GetType() == object.ConditionLoadBalancer && c.GetStatus() != corev1.ConditionStatus_CONDITION_STATUS_TRUE && c.GetMessage() != "" {
			return c.GetMessage()
		}
	}
	return "lbctl, which gives such services their addresses, has not looked at it yet: see whether lbctl runs, or use type NodePort or spec.externalIPs"
}

// BalancerConditions lists the types of the conditions of a service that lbctl writes.
func BalancerConditions() []string {
	return []string{object.ConditionLoadBalancer, object.ConditionAnnounced}
}

const (
	// excludeLabel on a node, with any value, keeps load balancers from sending it traffic.
	excludeLabel = "node.kubernetes.io/exclude-from-external-load-balancers"
	// deletedTaint is set by the cluster autoscaler on a node that it is about to delete.
	deletedTaint = "ToBeDeletedByClusterAutoscaler"
)

// TakesBalancerTraffic reports whether load balancers may send traffic to a node. It does not depend on
// the node's readiness, because the health checks of load balancers detect earlier when a node stops and
// starts to take traffic.
func TakesBalancerTraffic(node *corev1.Node) bool {
	if _, excluded := node.GetMetadata().GetLabels()[excludeLabel]; excluded {
		return false
	}
	return !slices.ContainsFunc(node.GetSpec().GetTaints(), func(t *corev1.Taint) bool { return t.GetKey() == deletedTaint })
}

// HasBalancerFinalizer reports whether a service has the finalizer of lbctl: it may have a load
// balancer, or values that were allocated for one.
func HasBalancerFinalizer(svc *corev1.Service) bool {
	return slices.Contains(svc.GetMetadata().GetFinalizers(), object.FinalizerLoadBalancer)
}

// KindAddressShare is the kind of the owner of load-balancer addresses that services share. It is no
// kind of the registry.
const KindAddressShare = "AddressShare"

// AddressOwner is the owner of load-balancer addresses in the allocator.
type AddressOwner struct {
	UID       string
	Kind      string // Service or AddressShare
	Namespace string
	Name      string // of the service, or the key of the share
}

// OwnerOfAddresses returns the owner of a service's load-balancer addresses. Services of one
// namespace with the same key share an owner, which outlives each of them.
func OwnerOfAddresses(svc *corev1.Service) AddressOwner {
	meta := svc.GetMetadata()
	key := SharingKey(svc)
	if key == "" {
		return AddressOwner{UID: meta.GetUid(), Kind: "Service", Namespace: meta.GetNamespace(), Name: meta.GetName()}
	}
	sum := sha256.Sum256([]byte(meta.GetNamespace() + "/" + key))
	return AddressOwner{
		UID: "share-" + hex.EncodeToString(sum[:16]), Kind: KindAddressShare, Namespace: meta.GetNamespace(), Name: key[:min(len(key), maxShareName)],
	}
}

// maxShareName is the number of bytes of a sharing key that name its owner.
const maxShareName = 63

// SharingKey returns the key under which a service shares its load-balancer addresses, and "" if it
// does not share them.
func SharingKey(svc *corev1.Service) string {
	annotations := svc.GetMetadata().GetAnnotations()
	return cmp.Or(annotations[object.AnnotationBalancerShare], annotations[object.AnnotationBalancerShareOlder])
}

// BalancerSlots is the prefix of the slots of load-balancer addresses in the allocator.
const BalancerSlots = "loadBalancer/"

// BalancerSlot returns the slot of the nth load-balancer address of a family, from 0.
func BalancerSlot(family corev1.IPFamily, n int) string {
	slot := BalancerSlots + "ipv4"
	if family == corev1.IPFamily_IP_FAMILY_IPV6 {
		slot = BalancerSlots + "ipv6"
	}
	if n > 0 {
		slot += fmt.Sprintf("/%d", n)
	}
	return slot
}
