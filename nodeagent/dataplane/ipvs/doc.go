// Package ipvs is the data plane in the kernel's IPVS.
//
// A virtual server of a plan is a virtual service of the kernel at the same
// address and port. Around it stand a packet filter and routes, which this
// package shares with nobody but takes from package kernel. Where clients inside
// and outside have backends of their own, those outside are sent to a stand-in
// address with a service of its own: IPVS knows no sources, and packet marks do
// not translate ports when clients are to be sticky.
//
// The one invariant: what is done to the kernel is known here. A mirror in
// memory says what every change costs, a journal on disk says what is ours when
// the process starts again, and an audit compares both with the kernel.
//
// Messages are our own, 64 at a time, each error matched to its message. A
// library that sends one and waits is twenty to forty times slower, which is
// the difference between a restart that nobody notices and one of seconds.
package ipvs
