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
func (k Key) Path() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// Compare orders keys by kind, namespace and name.
func Compare(a, b Key) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}
