// Package netfilter is the access to the kernel's nftables for all packages that have tables there:
// the packet filter, the nftables balancer, and tests. It has a socket for transactions of any size,
// consistent reads of long lists, and the parts of rules that depend on the address family.
//
// Invariant: a read is of one generation of the tables. If the tables change during the read, it
// starts again. After an error a socket is replaced, so that no answer is taken for the answer to
// another request.
//
// The library makes the messages of a transaction. The package sends them, and before that completes
// those that the library cannot write in the form that the program nft expects. nft then prints the
// sets and rules as they are.
//
// The package reads lists from netlink itself, because the library github.com/google/nftables cannot
// read all the rules that it can write, and needs several times as long for large sets. Attributes
// are split here, because the decoder of mdlayher/netlink takes seven times as long, with five
// allocations for each element instead of none. The package is separate from package packetfilter,
// because the balancer must not depend on the packet filter.
package netfilter
