package view

import (
	"net/netip"
	"sync"

	corev1 "portolan.dev/api/core/v1"

	"portolan.dev/services/changes"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/nodeview"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// Kinds are the kinds of objects in a view.
var Kinds = []string{"Service", "EndpointSlice", "Pod", "Node"}

// Batch is the batch of a view. Its further objects are the node's pods.
type Batch = nodeview.Batch[*corev1.Pod]

// Service is a service with its slices.
type Service = nodeview.Service

// ChangedKinds reports the objects that a batch of changes concerns.
type ChangedKinds struct {
	Pods bool // pods of this node
	Node bool // this node
	Edge bool // services with addresses that edges serve
}

// View is the node's view of the registry. It is safe for concurrent use. The objects that it returns
// are shared and must not be changed.
type View struct {
	*nodeview.View[*corev1.Pod]
	node  string
	guard *guard.Guard
	live  bool // the registry's snapshot was applied; used by Apply only

	mu        sync.Mutex         // guards nodeNames
	nodeNames map[string]*string // the shared copies
}

// New returns an empty view for the named node, which applies objects under a guard.
func New(node string, g *guard.Guard) *View {
	v := &View{node: node, guard: g, nodeNames: map[string]*string{}}
	v.View = nodeview.New[*corev1.Pod](nodeview.Options{Node: node, Keeps: v.Accepts, Trim: v.Trim, Guard: g})
	return v
}

// Node returns the name of the node.
func (v *View) Node() string { return v.node }

// Accepts reports whether the view stores an object: a service, a slice, a pod of this node or the node itself.
// The result depends on the object and the node only, so a follower may call Accepts before it stores
// the object.
func (v *View) Accepts(o object.Object) bool {
	switch o := o.(type) {
	case *corev1.Pod:
		return o.GetSpec().GetNodeName() == v.node
	case *corev1.Node:
		return o.GetMetadata().GetName() == v.node
	}
	return true
}

// Apply applies changes up to a revision. The first batch must be a complete snapshot. Only one
// goroutine may call it.
func (v *View) Apply(batch []changes.Change, revision uint64) ChangedKinds {
	changed := v.View.Apply(batch, revision)
	edge := !v.live
	for i := range batch {
		if c := &batch[i]; c.Kind == "Service" {
			v.guard.Run(stepEdge, guard.Object(c.Key), func() { edge = edge || hasEdgeAddress(c.Old) || hasEdgeAddress(c.New) })
		}
	}
	v.live = true
	return ChangedKinds{Pods: changed.Others, Node: changed.Node, Edge: edge}
}

// stepEdge reads the addresses of a service that edges serve.
const stepEdge = "edge"

// hasEdgeAddress reports whether an object is a service with an address that edges serve.
func hasEdgeAddress(o object.Object) bool {
	svc, ok := o.(*corev1.Service)
	return ok && len(spec.EdgeAddresses(svc)) > 0
}

// EdgeAddresses returns the load-balancer addresses that edges serve. live is false if the view is not
// from the registry yet.
func (v *View) EdgeAddresses() (all map[netip.Addr]bool, live bool) {
	services, live := v.Services()
	all = map[netip.Addr]bool{}
	for _, svc := range services {
		v.guard.Run(stepEdge, guard.Object(object.KeyOf(svc)), func() {
			for _, addr := range spec.EdgeAddresses(svc) {
				all[addr] = true
			}
		})
	}
	return all, live
}

// Pods returns the pods of the node in no particular order.
func (v *View) Pods() []*corev1.Pod { return v.Others() }
