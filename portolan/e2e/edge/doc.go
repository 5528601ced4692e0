// Package edge tests edges on a LAN as they run in an installation: registry, allocator, lbctl, two
// nodes with an agent and an edge each, all with certificates, and a client on the nodes' LAN that knows
// nothing of Portolan.
//
// The promises: a backend learns the client's address; when the edge of the announcing node is killed,
// the other one answers; when it is told to stop, no request is lost, and connections go on for the stop
// timeout at most; and an edge that starts while the registry is away serves by its view on disk. Package
// announce tests the announcements meanwhile.
package edge
