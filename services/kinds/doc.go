// Package kinds is the table of the kinds of objects. A kind is one row (table.go): its names, the
// roles that may call its methods, the fields to select by, and its rules, which are functions of
// package spec.
//
// Code that treats all kinds alike reads the table: admission and the API in the registry, the roles of
// package access, the command line. The invariant: the table has a row for every kind of the contract
// (the fields of core.v1.Object), and the rows' services and methods have their names of the contract. A
// row is short, because the message and the names of methods come from the contract, and every other field
// has a default.
//
// The alternative was a row as a struct in package object, below spec. Then spec and the other layers add
// their functions at start, each to its own field. A kind would be spread over the layers, and a program
// that does not import a layer would have incomplete rows. Here the table is a package above object, spec
// and identity. Its functions have the kind's own type, the compiler checks them, and one file shows all
// kinds. The disadvantage is that the rules in spec cannot read the table: properties of the row, such as
// whether a kind has namespaces, are passed to them.
//
// The registry and the command line have functions of a kind that need their own types: hooks that
// read other objects (registry/internal/rules), Kubernetes' types (services/manifest), and
// columns. They are maps by the name of a kind, in which a kind without such functions does not
// appear.
package kinds
