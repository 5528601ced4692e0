// Package nodes runs a registry, an allocator and several node agents in one process, over TCP and a real NATS server, and asks about them with
// the command line: what `portolan wait`, `node`, `describe` and `explain` say when nodes are well, fail, or are silent.
//
// All nodes are one machine, so at most one of them can forward an address: services have policy Local, and a node without a backend of its own
// has nothing to open.
package nodes
