// Package nodes runs a registry, an allocator and several node agents in one process, over TCP and
// a real NATS server. It checks the output of `portolan wait`, `node`, `describe` and `explain`
// when nodes work, fail, or are silent. TestControllersShareServices has several endpoint controllers
// instead of nodes, and the tests of refused slices have one.
//
// All nodes are one machine, so at most one of them can forward an address. Services therefore have
// policy Local, and a node without a backend of its own opens nothing.
package nodes
