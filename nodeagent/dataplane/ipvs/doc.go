// Package ipvs is the data plane in the kernel's IPVS.
//
// A virtual server of a plan is a virtual service of the kernel at the same
// address and port. Where clients inside and outside have backends of their own,
// those outside are sent to a stand-in address with a service of its own: IPVS
// knows no sources, and packet marks do not translate ports when clients are to
// be sticky. All else is package kernel's.
//
// Messages are our own, 64 at a time, each error matched to its message. A
// library that sends one and waits is twenty to forty times slower, which is
// the difference between a restart that nobody notices and one of seconds.
package ipvs
