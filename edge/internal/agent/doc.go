// Package agent tells the agent of the node which load-balancer addresses the edge wants and serves,
// over a stream (LocalProxyService).
//
// The edge sets the addresses that it wants (Want). The agent makes them local to the node, and says so
// (IsLocal). Then the edge listens at them and says that (Serve), and the agent announces them. An edge
// that is about to stop says so first (Drain): the addresses move to other nodes while its connections
// go on.
//
// An address that was local stays so while the agent cannot be reached, because the routes in the
// kernel outlive the agent. It is local until an agent says that it is not. Without an agent each
// address counts as local, and listening at it decides.
package agent
