package machine

import (
	"net/netip"
	"time"
)

// HandOvers send packets of connections that were opened through another node to that node. They stay in force
// without the agent, until they end by themselves. The methods are safe for concurrent use.
type HandOvers interface {
	// Set replaces the hand-overs. It returns when they are in force. A hand-over to the same node as
	// before keeps its end.
	Set([]HandOver) error
	// Check restores hand-overs that another program has removed.
	Check() error
	Close() error
}

// HandOver is the hand-over of an address that has moved to this node.
type HandOver struct {
	Address netip.Addr
	// Via is the address of the previous node on a network of this node.
	Via  netip.Addr
	Left time.Duration // until it ends
}
