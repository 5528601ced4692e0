// Package kinds is the table of the kinds of objects. A kind is one row (table.go): its names, the
// roles that may call its methods, the fields to select by, and its rules, which are functions of
// package spec.
//
// Everything that treats all kinds alike reads the table: admission and the API in the registry,
// the roles of package access, the command line. The invariant: the table has a row for every kind
// of the contract (the fields of core.v1.Object), and the names of the rows' services and methods
// are those of the contract. A row needs little, because the message and the names of methods come
// from the contract, and every other field has a default.
//
// Two shapes were possible. In the first, the row is a struct in package object, below spec, and
// spec and the other layers add their functions at start, each to its own field. Then no import
// changes, but a kind is again spread over the layers, and a program that does not import a layer
// has rows with gaps. In the second, which this is, the row is a package above object, spec and
// identity. Its functions have the kind's own type, the compiler checks them, and one file shows
// all kinds. The price is that the rules in spec do not know the table: what depends on the row,
// such as whether a kind has namespaces, is passed to them.
//
// The registry and the command line have functions of a kind that need their own types: hooks that
// read other objects (registry/internal/rules), Kubernetes' types (services/manifest), and
// columns. They are maps by the name of a kind, in which a kind without such functions does not
// appear.
package kinds
