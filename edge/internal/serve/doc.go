// Package serve makes an edge serve what its view says: it plans the services that have changed, and
// opens, changes and closes ports.
//
// One goroutine, Run, does all of that. A port has a listener, a pool of backends, and a handler of
// layer 4 or 7. Everything of a port changes in place; connections go on, unless their backend is
// removed and its drain time is over. Only a change between layers 4 and 7 makes another handler, and
// connections of the former one drain.
//
// A port is opened once its address belongs to the machine, which the node's agent says. An address
// counts as served while one of its ports is open. If several services claim a port, the oldest one
// has it, as in the data planes of nodes.
//
// The invariant: every planned port is open, or has an error that the status shows and that is tried
// again.
package serve
