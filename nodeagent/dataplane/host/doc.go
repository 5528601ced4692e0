// Package host is the part of this machine around a data plane: routes that make virtual addresses
// local, settings of the kernel (sysctls), connection tracking, notifications about changes, and
// network namespaces.
//
// Invariant: the package changes and removes only routes that carry the plane's route protocol, and
// only the settings and flows that its caller names. It decides nothing: the values of the settings
// and the time of a change are the plane's decision.
//
// The package imports no other package of the agent, and the plane, the packet filter and the
// balancers all import it. The alternative, one package per subject, would split the sockets that
// share Within and Watch into five packages of one file each.
package host
