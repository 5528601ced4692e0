package kernel

import (
	"errors"
	"net/netip"
	"time"

	"portolan.dev/nodeagent/plan"
)

// Balancer is what spreads connections over backends in the kernel, as far as
// one differs from another: the rest is the Plane's. It is not safe for
// concurrent use.
//
// A server of a balancer is known by an address, a port and a protocol. That is
// a frontend, or, where clients outside have backends of their own, a stand-in
// for it.
type Balancer interface {
	// Name is how the plane is called in configuration.
	Name() string
	// Traits tell the plane what the balancer leaves to it.
	Traits() Traits
	// Settle makes the settings of the kernel that the balancer needs besides
	// Forwarding, in the namespace of the calling thread, and tells what became of
	// them.
	Settle(t Timeouts) []Setting
	// Settings are what the balancer makes of a virtual server, backends aside.
	// They may change when Apply finds that the kernel lacks something.
	Settings(v *plan.VirtualServer) Settings
	// Lacks tells whether the kernel does not have a scheduler, with what a
	// person can do about it; another one is used in its place.
	Lacks(s plan.Scheduler) (remedy string, lacks bool)
	// SetSources says whose traffic is internal.
	SetSources(s plan.Sources) error
	// Apply carries out operations in order and answers each. An error of one
	// does not keep the others from being tried, except that a server that could
	// not be added gets no backends: it may be somebody else's.
	Apply(ops []Op) []error
	// Read reads servers back, by the kernel's frontend. One that is not there is
	// not in the result.
	Read(ids []ID) (map[plan.Frontend]Server, error)
	// Backends reads the backends of some servers with their connections.
	Backends(ids ...ID) (map[plan.Frontend][]Backend, error)
	// Traffic reads what has gone through servers, by the kernel's frontend. It may
	// be called while another method is under way, Read aside.
	Traffic(ids []ID) (map[plan.Frontend]Traffic, error)
	// Remedy says what a person can do about an error of Apply; may be empty.
	Remedy(err error) string
	// Remove takes out of the kernel what is ours besides servers.
	Remove() error
	// Close frees sockets and leaves the kernel as it is.
	Close()
}

// Traits are what a plane has to know of its balancer.
type Traits struct {
	// Splits: it tells clients inside from those outside by itself. A stand-in
	// is then nothing but a name.
	Splits bool
	// Refuses: it refuses who comes to a server without backends. Otherwise the
	// packet filter does.
	Refuses bool
	// Together is how many operations Apply is best given at once; 0: all.
	Together int
	// ReadsAside: Read may be called while another method is under way. Otherwise
	// changes wait while everything is read.
	ReadsAside bool
	// Tracks: its connections live in connection tracking alone, so that they
	// are cut by being forgotten there.
	Tracks bool
}

// ID is a server of a balancer. That of a stand-in is for clients outside.
type ID struct {
	plan.Frontend               // the kernel's
	For           plan.Frontend // the frontend that it serves: itself, unless it is that of a stand-in
}

// Settings are what can be changed about a server in place, as the kernel knows
// them.
type Settings struct {
	Scheduler string        // the kernel's name
	Flags     uint32        // as the balancer defines them
	Affinity  time.Duration // in whole seconds; 0: none
	// Closed: nobody is sent there any more, for all that drains. It is asked for
	// where the balancer splits.
	Closed bool
}

// Server is a server as the kernel has it.
type Server struct {
	Settings
	Backends []Backend
}

// Backend is a backend as the kernel has it.
type Backend struct {
	Addr   netip.AddrPort
	Weight uint32 // 0: no new connections
	// Connections are established, or flows where the protocol knows no
	// connections; Closing are those that the kernel keeps for a while.
	Connections, Closing uint32
	// Unanswered are those of Closing that the backend has not answered yet. They
	// are counted where Traits.Tracks.
	Unanswered uint32
}

// OpKind is what an operation does.
type OpKind uint8

// The operations.
const (
	AddServer     OpKind = iota // ID, Settings
	SetServer                   // ID, Settings
	DeleteServer                // ID; it is no error if there is none
	AddBackend                  // ID, Backend, Weight
	SetBackend                  // ID, Backend, Weight
	DeleteBackend               // ID, Backend; it is no error if there is none
)

// Op is one change of a balancer.
type Op struct {
	Kind     OpKind
	ID       ID
	Settings Settings
	Backend  netip.AddrPort
	Weight   uint32
}

// Errors of Apply that the plane has an answer to.
var (
	// ErrForeign: there is a server already, which is not ours.
	ErrForeign = errors.New("the kernel has a virtual server there that is not ours")
	// ErrGone: the server is not there any more.
	ErrGone = errors.New("a virtual server of ours has vanished from the kernel")
	// ErrDrifted: the backends of a server are not what they were.
	ErrDrifted = errors.New("the backends of a virtual server of ours have been changed")
	// ErrUnknown: the kernel has not said what it did. A server that was to be
	// added may be there. The balancer remembers, and a later AddServer or
	// DeleteServer of it finds out.
	ErrUnknown = errors.New("what the kernel did is not known")
	// ErrNoScheduler: the kernel does not have the scheduler. Settings has
	// another one from now on.
	ErrNoScheduler = errors.New("the kernel does not have the scheduler")
)
