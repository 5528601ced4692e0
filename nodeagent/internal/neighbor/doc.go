// Package neighbor answers the neighbours on a network interface for addresses that no device has:
// by ARP for IPv4 and by neighbour discovery for IPv6.
//
// It reads requests from packet sockets. A socket of ICMPv6 would not be enough, because the kernel
// passes a request to it only if the request is for an address of the machine or for a multicast
// group: a neighbour that asks whether it can still reach an address sends the request to that
// address. The requests are filtered in the kernel, so that a busy network costs the agent nothing.
//
// The invariant: each packet that the package sends is requested by its caller, which checks its right to
// answer before.
//
// The alternative was to put the addresses on a device and let the kernel answer. The answers would not end
// with the time of a right: an agent that is stopped or hangs would leave the addresses there.
package neighbor
