package kernel

import (
	"net/netip"
	"os"
	"strings"
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
	// Setting returns the value of a setting of the kernel. If the kernel does not have it, the
	// error is fs.ErrNotExist.
	Setting(name string) (value string, err error)
	// Set changes a setting of the kernel.
	Set(name, value string) error
	// Advice returns settings that may harm the plane's traffic, but that the plane does not change
	// because they also concern other traffic.
	Advice() []Setting
}

// RouteTable makes virtual addresses local to a node. Routes implements it for Linux.
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

// FlowTable removes flows. Conntrack implements it for Linux.
type FlowTable interface {
	Forget(flows, unanswered []Flow) error
	Close()
}

// PacketFilter is the packet filter of a plane. Filter implements it for Linux.
type PacketFilter interface {
	SetSources(pods, nodes []netip.Prefix) error
	Commit(c Change) error
	Install() error
	Installed() bool
	// Read reads the state in force, and may be called during a call of another method. The
	// returned function describes the differences from the state that is committed at the time of
	// its call.
	Read() (drift func() []string, err error)
	Foreign() <-chan struct{}
	Remove() error
	Close() error
}

// linux is the default host of a plane.
type linux struct{ netns string }

// Routes implements Host.
func (linux) Routes() (RouteTable, error) {
	r, err := NewRoutes()
	if err != nil { // r is a nil pointer, which is not a nil RouteTable
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
