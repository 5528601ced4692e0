package view

import (
	corev1 "portolan.dev/api/core/v1"

	"portolan.dev/services/balancer"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/nodeview"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// Kinds are the kinds of objects in a view.
var Kinds = []string{"Service", "EndpointSlice", "Secret", "Node"}

// View is an edge's view of the registry. Its further objects are the secrets with certificates.
type View = nodeview.View[*corev1.Secret]

// New returns an empty view for the edge of a node, which applies objects under a guard. If the node's zone
// changes, the next batch has all services.
func New(node string, g *guard.Guard) *View {
	return nodeview.New[*corev1.Secret](nodeview.Options{
		Node: node, Keeps: Keeps(node), Guard: g,
		ConcernsAll: func(before, now *corev1.Node) bool { return Zone(before) != Zone(now) },
	})
}

// Keeps returns a function that reports whether the view of a node's edge stores an object. It stores
// the services of the edge's class, the secrets with certificates, and the node itself. It stores all
// slices, because a slice may come before its service.
func Keeps(node string) func(object.Object) bool {
	return func(o object.Object) bool {
		switch o := o.(type) {
		case *corev1.Service:
			return spec.IsLoadBalancer(o) && o.GetSpec().GetLoadBalancerClass() == balancer.ClassEdge
		case *corev1.Secret:
			return o.GetType() == spec.SecretTypeTLS
		case *corev1.Node:
			return o.GetMetadata().GetName() == node
		}
		return true
	}
}

// Zone returns the zone of a node, which may be nil. The zone is empty if the node has none.
func Zone(node *corev1.Node) string { return node.GetMetadata().GetLabels()[object.LabelZone] }
