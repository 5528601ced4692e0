// Package agent is the edge's side of the stream to the agent of its node (LocalProxyService).
//
// The edge sets the addresses that it wants (Want). The agent makes them local to the node, and reports that
// (IsLocal). Then the edge listens at them and reports that (Serve), and the agent announces them. An edge
// that is about to stop reports that first (Drain): the addresses move to other nodes while the edge's connections
// continue.
//
// An address that was local counts as local while the agent cannot be reached, because the routes in the
// kernel outlive the agent. It does so until an agent reports that it is not local. Without a configured agent
// each address counts as local, and an attempt to listen shows whether it is.
package agent
