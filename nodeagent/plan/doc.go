// Package plan decides the forwarding of a node. Build turns a service, its EndpointSlices and facts
// about the node into virtual servers. Table combines the virtual servers of all services and
// returns the changed frontends with their servers, which are passed to a data plane. Diff describes the
// differences between two states as steps.
//
// Everything here is pure: the result depends on no clock, no socket and no map order. The same
// input gives the same plan on every node that has the same facts. Explanations come from the code that
// chooses the backends, so they always match the traffic.
//
// The unit of work is one service: the cost of a change is proportional to the services that it
// touches. The alternative, to recompute all services at every change and to diff the result, makes
// agents slow at ten thousand services.
package plan
