package kernel

import (
	"net/netip"

	"portolan.dev/nodeagent/dataplane/host"
	"portolan.dev/nodeagent/dataplane/kernelmode"
	"portolan.dev/nodeagent/dataplane/packetfilter"
)

// Host is the machine around a balancer: everything that a Plane reads and changes there in
// addition to servers and backends. Linux is the host of every agent. A simulation has a host in
// memory, so that the whole Plane runs on top of it.
//
// Its methods are called in the namespace of the options.
type Host interface {
	// Routes returns the plane's routes.
	Routes() (RouteTable, error)
	// Flows opens connection tracking.
	Flows() (FlowTable, error)
	// Filter returns a packet filter that is not in force before its Install. Ranges are the
	// virtual addresses. Stand-ins are virtual addresses too, but clients may not use them
	// directly.
	Filter(ranges, standIns []netip.Prefix) (PacketFilter, error)
	// Remains reads the rules of a packet filter that an earlier process has left.
	Remains() (*packetfilter.Remains, error)
	host.SettingStore
	// Advice returns settings that may harm the plane's traffic, but that the plane does not change
	// because they also concern other traffic.
	Advice() []kernelmode.Setting
}

// RouteTable makes virtual addresses local to a node. host.Routes implements it for Linux.
type RouteTable interface {
	Read() error
	Has(p netip.Prefix) bool
	All() []netip.Prefix
	Add(p netip.Prefix) error
	Delete(p netip.Prefix) error
	Addresses() (map[netip.Addr]bool, error)
	Lost() <-chan struct{}
	Close()
}

// FlowTable removes flows. host.Conntrack implements it for Linux.
type FlowTable interface {
	Forget(flows, unanswered []host.Flow) error
	Close()
}

// PacketFilter is the packet filter of a plane. packetfilter.Filter implements it for Linux.
type PacketFilter interface {
	SetSources(pods, nodes []netip.Prefix) error
	Commit(c packetfilter.Change) error
	Install() error
	Installed() bool
	// Read reads the state in force, and may be called during a call of another method. The
	// returned function describes the differences from the state that is committed at the time of
	// its call.
	Read() (drift func() []string, err error)
	Changed() <-chan struct{}
	Remove() error
	Close() error
}
