// Package announce decides which node announces each load-balancer address, and tells the node
// agents.
//
// Assigner is the decision: a state machine without a clock, goroutines or connections of its own.
// Server carries its answers to the agents, on a stream from each. Build derives the wanted
// addresses from services, slices and nodes.
//
// The invariant: at any instant at most one node has the right to announce an address. A node's
// right is valid for a time T (Options.Validity), counted by the node's clock from the moment at which the
// node sent the message that was answered. For each address, the assigner records a later end of the right:
// T and an eighth of T after its own last answer, by its own clock. It gives the address to another node only
// after that time, or after the node has said that it has stopped. The eighth allows for clocks with rates that differ by up
// to 12 %. (A tenth is not enough if // one clock is 5 % fast and the other one 5 % slow.)
//
// Rights are not stored. A new leader does not know the rights that its predecessor has given,
// so it gives no address to another node before all of them have ended. In this time a node keeps the
// addresses that it lists as its own. Only a message that the node sent after the greeting of the new leader
// counts, because an older message may be about a right that has passed to another node since. If there was
// no leader for so long that the rights have ended, the nodes list the addresses that they had last. If
// several nodes list an address, the node with the right that ended last becomes the owner. It gets the right
// when all earlier rights have ended. So an address stays where it is, with its hand-over.
//
// The owner of an address is chosen by rendezvous hashing, and stays as long as it is eligible. An
// address that moves costs its clients their connections, unless the previous owner lives: then the
// answers to the new owner name it (HandOver), and the new owner sends packets of connections that it
// does not know there. Only the node that has announced the address last is named, and not while that node
// itself sends packets for the address on. So hand-overs make no chain and no loop. Like rights, hand-overs
// are not stored: the agents report them, and a new leader believes the nodes that list the address. It counts
// a previous owner that has not connected yet as alive for the time of a restart.
//
// While its agent does not run, a node still forwards in the modes of the kernel. So its addresses stay
// with it for a time (Options.Restart) if the agent has said that it stops, or if its connection was
// closed: the kernel of a living machine does that when a process dies. A machine that is dead or cut
// off is silent, and loses its addresses when its rights have ended. The invariant depends on neither:
// the time of a restart only lengthens the time in which an address has no other owner. The
// alternative, to ask the node over another path whether it lives, would need a second connection that
// fails in the same ways.
//
// Edges, which are proxies on some nodes, serve the addresses of services of the class
// portolan.dev/edge. A node gets the right to such an address only while its agent reports the address as
// served. The agent gives the right up as soon as its edge no longer serves the address. Then the address moves
// at once. An edge goes on serving while the agent of its node restarts, so the address stays there for
// the time of a restart, and until the edge has connected to the new process or the agent no longer
// waits for it. A node gets the packets of earlier connections to such an address only while it is local
// to the node.
//
// The rejected alternative to rights is a Lease in the registry for each address or node. Each renewal would
// be a change on the stream: two a second for each node, which every follower reads.
package announce
