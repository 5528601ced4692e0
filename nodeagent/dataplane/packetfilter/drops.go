package packetfilter

import "portolan.dev/nodeagent/plan"

// The reasons of dropped packets.
const (
	ReasonSourceRange = "source_range" // the client is in none of the allowed ranges
	ReasonNoBackend   = "no_backend"   // there is no backend on this node, but another node may have one
)

// dropping maps the sets with counters of dropped packets to the reason. Their members are
// frontends.
var dropping = map[Set]string{
	DeniedSet: ReasonSourceRange, LimitNode: ReasonSourceRange,
	DropInside: ReasonNoBackend, DropOutside: ReasonNoBackend,
}

// Drop is the number of packets that were dropped at a frontend for a reason.
type Drop struct {
	Frontend plan.Frontend
	Set      Set // the set that counted them
	Reason   string
	Packets  uint64 // since the packet filter was built
}
