package backup

import (
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/store"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// madeByDaemon reports whether a row is an object that the daemons of an installation make before anybody
// has written to it: the namespace default, Leases of the controllers and of values at hand, Events, and
// Nodes as their agents register them. A Node with a spec has settings of an operator.
func madeByDaemon(row store.Row) (bool, error) {
	switch row.Key.Kind {
	case "Event":
		return true, nil
	case "Namespace":
		return row.Key.Name == object.DefaultNamespace, nil
	case "Lease", "Node":
	default:
		return false, nil
	}
	o, err := store.Decode(row.Key.Kind, row.Data, row.Revision)
	if err != nil {
		return false, err
	}
	switch o := o.(type) {
	case *corev1.Lease:
		return spec.IsReserveLease(o) || spec.IsControllerLease(o) || spec.IsBalancerLease(o), nil
	case *corev1.Node:
		return o.GetSpec() == nil || o.GetSpec().EqualVT(&corev1.NodeSpec{}), nil
	}
	return false, nil
}
