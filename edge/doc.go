// Package edge is the daemon that serves load-balancer addresses itself: a proxy of layers 4 and 7 for
// services of the class portolan.dev/edge.
//
// It follows the change stream, listens at the addresses in the services' status, and forwards to the
// services' endpoints. It holds no state, so that any number of edges can serve the same services.
// lbctl chooses the addresses, because they outlive every edge, and because edges would need a leader for the choice.
//
// The node agent beside an edge announces the addresses, because a node has one right to announce and
// one session with each router. The edge tells its agent which addresses it serves, over a stream that
// the kernel closes when the edge dies.
package edge
