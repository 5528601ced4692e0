// Package access decides which roles may call which gRPC methods. It is one table, from method to
// roles, for all daemons.
//
// The invariant: a method that is not in the table cannot be called, and a server does not start if
// its methods and the table's rows for its services differ. A new method therefore needs a row with
// its roles.
//
// The table deals with roles and methods only. Rules about the object that a role writes, for
// example that a node agent may write only its own Node, are checked by the registry, which has the
// object (registry/scope). The alternative, rules as options of the methods in the contract, would
// spread them over all files, and a reader could not see at a glance which methods a role may call.
package access
