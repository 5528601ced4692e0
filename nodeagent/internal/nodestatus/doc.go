// Package nodestatus reports the state of a node: its object in the registry (Registrar), its
// heartbeats over NATS (Publisher), and its endpoints for load balancers and supervisors (Healthz).
//
// The three have different readers. The Node has what changes rarely and must outlive the agent.
// Heartbeats have what changes with every batch, and are not stored. The endpoints answer on the
// node itself, and work without registry and NATS.
//
// The invariant: the agent sets its Node ready when it starts, and later only while it can publish
// heartbeats. Only other programs set it to not ready.
//
// The package does not know how the node forwards. What it reports about that comes from functions
// in its options.
package nodestatus
