// Package access says who may call what: one table, method to roles, for all
// daemons.
//
// The invariant: a method that is not in the table can be called by nobody, and
// a server whose methods and whose rows differ does not start. So whoever adds a
// method has to say who it is for.
//
// The table knows roles and methods only. What an object must look like for a
// role to write it, such as a node agent and its own Node, is for the registry
// to judge, which has the object (registry/scope). Rules in the contract, as
// options of its methods, would be the alternative; they would be spread over
// all files, and a reader could not see at a glance what a role may do.
package access
