// Package nftables is the data plane in the kernel's nftables. It is the modern form of the
// iptables mode, for kernels without IPVS.
//
// Servers with the same number of backends, scheduler and affinity form a class. They share a chain
// that picks a slot number. The backend for a slot number is an element of a map, and so is the
// class of a server. A server therefore adds elements but no rules, and a change of one backend
// costs a few elements, independent of the number of servers. The alternative, a chain per server
// and a rule per backend, takes ten times as long to load and is the reason why the iptables mode
// is slow.
//
// Operators, backups and firewalls list rules with nft, so the rules have only expressions that nft
// 1.0.6 can print and read again. In particular no rule looks the result of a map up in another map. A
// rule notes the result in the packet instead (note.go). A client with affinity remembers the number
// of a backend (a member), because an address would not fit into the note.
//
// The invariant: the mirror of the tables in memory equals the result of the last transaction. A
// failed transaction changes neither. It is split until the failing changes are isolated.
//
// The balancer compares each server before its operations with the server after them, although the
// plane has compared the backends already. One operation on a backend may move the server to
// another class and give any number of slots to other backends, so the elements of a transaction
// follow from the whole server and not from its operations.
//
// Differences from IPVS: nftables counts no connections, so lc, sed and nq become rr; a hashed
// client always falls back to another backend; and the time of affinity runs from the start of a
// client's last connection.
package nftables
