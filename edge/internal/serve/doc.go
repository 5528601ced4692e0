// Package serve serves the services of an edge's view: it plans the services that have changed, and opens,
// changes and closes ports.
//
// One goroutine, Run, does all of that. A port has a listener, a pool of backends, and a handler of
// layer 4 or 7. A port is changed in place, and its connections continue unless their backend is
// removed and its drain time is over. Only a change between layers 4 and 7 makes another handler, and
// connections of the former handler drain.
//
// A port is opened once the node's agent reports that its address belongs to the machine. An address
// counts as served while one of its ports is open. If several services claim a port, the oldest service
// has it, as in the data planes of nodes.
//
// The invariant: every planned port is open, or has an error. The status shows the error, and the port is
// tried again.
package serve
