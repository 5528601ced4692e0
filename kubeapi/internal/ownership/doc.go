// Package ownership tracks which manager owns which fields of an object, and merges applied objects.
//
// It is Kubernetes' own code (k8s.io/apimachinery/pkg/util/managedfields) on the types of Kubernetes and
// their schemas. What differs from Kubernetes is that a manager owns only fields that Portolan keeps:
// a field that it applied and that was dropped, such as the volumes of a pod, or that has the value of an
// absent one, such as false, is no field of the stored object. The registry stores the result with the
// object, and keeps it true for the clients of its own API (see services/apply).
//
// The schemas are decoded when the first object is written, because readers need none.
package ownership
