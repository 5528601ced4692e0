// Package addresses assigns roles to the addresses of a node: the Node's status has some of them,
// some serve node ports, and all of them are internal sources.
//
// The invariant: the roles are a function of the configuration and the addresses of the interfaces.
// The package reads neither the machine nor the registry. So the agent can compute the roles again
// whenever the machine reports a change, and pass each role to the part that needs it.
package addresses
