// Package ownership tracks which manager owns which fields of an object, and merges applied objects.
//
// It calls Kubernetes' own code (k8s.io/apimachinery/pkg/util/managedfields) with the types of Kubernetes
// and their schemas. Unlike in Kubernetes, a manager owns only fields that the stored object has. It does not
// own a field that it applied if Portolan drops the field, such as the volumes of a pod, or if the value is
// the same as an absent field, such as false. The registry stores the owners with the object, and updates
// them when clients of its own API write (see services/apply).
//
// The schemas are decoded when the first object is written, because readers need none.
package ownership
