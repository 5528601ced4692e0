// Package ipvs is the data plane in the kernel's IPVS.
//
// A virtual server of a plan is a virtual service of the kernel at the same address and port. If
// internal and external clients have different backends, external clients are sent to a stand-in
// address that has a service of its own. IPVS itself does not match sources, and packet marks do
// not translate ports if clients have affinity. Package kernel does everything else.
//
// The package encodes its own netlink messages and sends 64 at a time, each error matched to its
// message. A library that sends one message and waits is twenty to forty times slower. That is the
// difference between a restart without notice and one that takes seconds.
package ipvs
