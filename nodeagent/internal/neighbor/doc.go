// Package neighbor answers the neighbours on a network interface for addresses that no device has:
// by ARP for IPv4 and by neighbour discovery for IPv6.
//
// It reads requests from packet sockets. A socket of ICMPv6 would not be enough, because the kernel
// passes a request to it only if the request is for an address of the machine or for a multicast
// group: a neighbour that asks whether it can still reach an address sends the request to that
// address. The requests are filtered in the kernel, so that a busy network costs the agent nothing.
//
// The invariant: the package sends nothing unless it is told to, for each packet. The right to
// answer is the caller's to check.
//
// The alternative, to put the addresses on a device and let the kernel answer, has no moment at
// which an address stops by the clock: an agent that is stopped or hangs would leave it there.
package neighbor
