package kernel

import (
	"net/netip"
	"os"
	"strings"
)

// Host is the machine around a balancer: everything that a Plane reads and
// changes there besides servers and backends. Linux is the host of every agent.
// A simulation has a host in memory, so that all of the Plane runs above it.
//
// Its methods are called in the namespace of the options.
type Host interface {
	// Routes finds the routes that are ours.
	Routes() (RouteTable, error)
	// Flows opens connection tracking.
	Flows() (FlowTable, error)
	// Filter returns a packet filter that is not in force before its Install.
	// Ranges are virtual addresses; stand-ins are too, but no client may ask for
	// them.
	Filter(ranges, standIns []netip.Prefix) (PacketFilter, error)
	// Setting returns the value of a setting of the kernel. The error for one
	// that the kernel does not have is fs.ErrNotExist.
	Setting(name string) (value string, err error)
	// Set changes a setting of the kernel.
	Set(name, value string) error
	// Advice returns settings that the plane leaves alone, since they concern more
	// than its own traffic, and that some of its traffic may suffer from.
	Advice() []Setting
}

// RouteTable makes a node take packets to virtual addresses for its own. See
// Routes, which does so in Linux.
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

// FlowTable forgets flows. See Conntrack, which does so in Linux.
type FlowTable interface {
	Forget(flows, unanswered []Flow) error
	Close()
}

// PacketFilter is what a plane needs of a packet filter. See Filter, which is
// that of Linux.
type PacketFilter interface {
	SetSources(pods, nodes []netip.Prefix) error
	Commit(c Change) error
	Install() error
	Installed() bool
	// Read looks at what is in force, and may be called while another method is
	// under way. The function that it returns tells in words how this differs from
	// what was committed by the time of its call.
	Read() (drift func() []string, err error)
	Foreign() <-chan struct{}
	Remove() error
	Close() error
}

// linux is the host of a plane unless its options have another one.
type linux struct{ netns string }

// Routes implements Host.
func (linux) Routes() (RouteTable, error) {
	r, err := NewRoutes()
	if err != nil { // r would be a pointer to nothing
		return nil, err
	}
	return r, nil
}

// Flows implements Host.
func (linux) Flows() (FlowTable, error) {
	c, err := NewConntrack()
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Filter implements Host.
func (l linux) Filter(ranges, standIns []netip.Prefix) (PacketFilter, error) {
	f, err := NewFilter(l.netns, ranges, standIns)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Setting implements Host.
func (linux) Setting(name string) (string, error) {
	found, err := os.ReadFile(sysctlPath(name))
	return strings.TrimSpace(string(found)), err
}

// Set implements Host.
func (linux) Set(name, value string) error {
	return os.WriteFile(sysctlPath(name), []byte(value), 0)
}

// Advice implements Host.
func (linux) Advice() []Setting { return advice() }
