package kernelmode

import (
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/object"
)

// Traffic holds the counters of a server since it was added to the kernel.
type Traffic struct {
	Connections uint64 // or flows, if the protocol has no connections
	// In is from clients, Out is to them. Zero if the balancer does not count it.
	PacketsIn, PacketsOut, BytesIn, BytesOut uint64
}

// Counted is the traffic of one server of the balancer.
type Counted struct {
	// Server is the server's address in the balancer. A service has a server for each of its
	// addresses, and others for external clients.
	Server   plan.Frontend
	Service  object.Name
	PortName string
	Traffic
}

// Drop is the number of packets of a service port that the packet filter dropped at a frontend for a
// reason.
type Drop struct {
	Frontend plan.Frontend
	Set      string // the set of the packet filter that counted them
	Reason   string
	Packets  uint64 // since the packet filter was built
	Service  object.Name
	PortName string
}
