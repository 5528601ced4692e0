// Package nftables is the data plane in the kernel's nftables: the modern form
// of the iptables mode, for kernels without IPVS.
//
// Servers with the same number of backends, scheduler and affinity are a class,
// and share a chain that picks a number. What is behind a number is an element
// of a map, and so is which class a server is of. So a server costs elements and
// no rules, and a change of one backend costs a few elements, whatever else
// there is. The alternative, a chain per server and a rule per backend, takes
// ten times as long to load and is what made the iptables mode slow.
//
// The invariant: the mirror of the tables in memory is what the last transaction
// made of them. A transaction that fails has changed neither; it is taken apart
// until those that fail stand alone.
//
// What differs from IPVS: nftables counts no connections, so lc, sed and nq are
// rr; a hashed client always falls back to another backend; and the time of
// affinity runs from the start of a client's last connection.
package nftables
