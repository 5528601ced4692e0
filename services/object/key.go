package object

import (
	"cmp"
	"strings"
)

// DefaultNamespace is the namespace of objects for which none is given.
const DefaultNamespace = "default"

// Key identifies an object.
type Key struct {
	Kind      string
	Namespace string // empty for kinds without namespaces
	Name      string
}

// KeyOf returns the key of an object.
func KeyOf(o Object) Key {
	meta := o.GetMetadata()
	return Key{Kind: KindOf(o), Namespace: meta.GetNamespace(), Name: meta.GetName()}
}

// String returns the key in the form used in messages: "Service default/web", "Node n1".
func (k Key) String() string { return k.Kind + " " + k.Path() }

// Path returns the key without its kind: "default/web", "n1".
func (k Key) Path() string { return Name{k.Namespace, k.Name}.String() }

// Name is the name of an object among the objects of one kind. A service and its Endpoints have the
// same Name.
type Name struct {
	Namespace string // empty for kinds without namespaces
	Name      string
}

// NameOf returns the name of an object.
func NameOf(o Object) Name {
	return Name{o.GetMetadata().GetNamespace(), o.GetMetadata().GetName()}
}

// String returns the name in the form used in messages: "default/web", "n1".
func (n Name) String() string {
	if n.Namespace == "" {
		return n.Name
	}
	return n.Namespace + "/" + n.Name
}

// Compare orders names by namespace, then name.
func (n Name) Compare(o Name) int {
	return cmp.Or(strings.Compare(n.Namespace, o.Namespace), strings.Compare(n.Name, o.Name))
}

// Compare orders keys by kind, namespace and name.
func Compare(a, b Key) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}
