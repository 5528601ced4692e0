// Package nodestatus reports the state of a node to the control plane: its object in the registry
// (Registration), and its heartbeats over NATS (Publisher).
//
// The Node has facts that change rarely and must outlive the agent. Heartbeats have facts that
// change with every batch, and are not stored. A registry that stored them would commit once per
// node and interval.
//
// The invariant: the agent sets its Node ready when it starts, and later only while it can publish
// heartbeats. Only other programs set it to not ready.
//
// The package does not know how the node forwards. The fields about that come from functions in its
// options.
package nodestatus
