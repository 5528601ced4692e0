package kernel

import (
	"errors"
	"net/netip"
	"time"

	"portolan.dev/nodeagent/dataplane/kernelmode"
	"portolan.dev/nodeagent/plan"
)

// Balancer distributes connections over backends in the kernel. It contains the parts in which
// balancers differ; Plane does everything else. It is not safe for concurrent use.
//
// A server of a balancer is identified by an address, a port and a protocol. That is a frontend or,
// if external clients have backends of their own, its stand-in.
type Balancer interface {
	// Name returns the plane's name in the configuration.
	Name() string
	// Traits returns the balancer's properties that the plane depends on.
	Traits() Traits
	// ApplySettings makes the settings of the kernel that the balancer needs in addition to Forwarding, in
	// the namespace of the calling thread. It returns the settings with their results.
	ApplySettings(t kernelmode.Timeouts) []kernelmode.Setting
	// Settings returns the balancer's settings for a virtual server, without its backends. They may
	// change when Apply finds that the kernel lacks a feature.
	Settings(v *plan.VirtualServer) Settings
	// MissingScheduler reports whether the kernel lacks a scheduler, with advice for operators. Another
	// scheduler is used instead.
	MissingScheduler(s plan.Scheduler) (remedy string, lacks bool)
	// SetSources sets the sources of internal traffic.
	SetSources(s plan.Sources) error
	// Apply carries out operations in order and returns the error of each. If one fails, the others
	// are still tried, except that a server that could not be added gets no backends, because it
	// may belong to another program.
	Apply(ops []Op) []error
	// Read reads servers back, by the kernel's frontend. Servers that do not exist are missing in
	// the result.
	Read(ids []ID) (map[plan.Frontend]Server, error)
	// Own returns the servers in the kernel that bear the mark of a balancer of this kind, even if no plane of
	// this process has added them. If the balancer splits, a server for external clients has no Frontend.
	// Otherwise For equals Frontend in every ID, and the frontends of stand-ins are not known.
	Own() ([]ID, error)
	// Backends reads the backends of some servers with their numbers of connections.
	Backends(ids ...ID) (map[plan.Frontend][]Backend, error)
	// Traffic reads the counters of servers, by the kernel's frontend. It may be called during a
	// call of another method other than Read.
	Traffic(ids []ID) (map[plan.Frontend]kernelmode.Traffic, error)
	// Remedy returns advice for operators about an error of Apply; may be empty.
	Remedy(err error) string
	// Remove removes the balancer's state other than servers from the kernel.
	Remove() error
	// Close closes sockets and leaves the kernel as it is.
	Close()
}

// Traits are the properties of a balancer that a plane depends on.
type Traits struct {
	// SplitsClients is set if the balancer itself separates internal from external clients. The address of
	// a stand-in is then only a name.
	SplitsClients bool
	// Refuses is set if the balancer refuses clients of a server without backends. Otherwise the
	// packet filter does.
	Refuses bool
	// BatchSize is the preferred number of operations in a call of Apply; 0: no limit.
	BatchSize int
	// ConcurrentRead is set if Read may be called during a call of another method. Otherwise changes
	// wait while everything is read.
	ConcurrentRead bool
	// PrefersHeaviest is set if the balancer's form of dh sends all new connections to the backend
	// with the greatest weight. Otherwise the balancer itself hashes the address.
	PrefersHeaviest bool
	// SourceHashSlots is the number of slots of sh. A backend takes as many slots as its weight, so the
	// sum of the weights must not exceed it; 0: any weights.
	SourceHashSlots uint64
	// UsesConntrack is set if the connections exist in connection tracking only, so that removing them
	// there ends them.
	UsesConntrack bool
	// KeepsAffinity is set if clients that the balancer knows keep their time of affinity when the server's
	// is changed.
	KeepsAffinity bool
}

// ID identifies a server of a balancer. The server of a stand-in serves external clients.
type ID struct {
	plan.Frontend               // in the kernel
	For           plan.Frontend // the frontend that it serves; differs from the kernel's for a stand-in
}

// Settings are the properties of a server that can be changed in place, in the kernel's form.
type Settings struct {
	Scheduler string        // the kernel's name
	Flags     uint32        // as the balancer defines them
	Affinity  time.Duration // in whole seconds; 0: none
	// Closed is set if the server takes no new clients while its last backends drain. It is used
	// only if the balancer splits.
	Closed bool
	// Altered is set if another program has changed a property of the server that is the same for all servers of
	// the balancer. Settings for a plan never have it, so the server is set again.
	Altered bool
}

// Server is a server in the kernel.
type Server struct {
	Settings
	Backends []Backend
}

// Backend is a backend in the kernel.
type Backend struct {
	Addr   netip.AddrPort
	Weight uint32 // 0: no new connections
	// Altered is set if another program has changed a property of the backend other than its weight.
	// SetBackend restores the property.
	Altered bool
	// Connections is the number of established connections, or of flows if the protocol has no
	// connections. Closing is the number of closed connections that the kernel still keeps.
	Connections, Closing uint32
	// Unanswered is the number of connections in Closing that the backend has not answered yet. It
	// is counted only if Traits.UsesConntrack is set.
	Unanswered uint32
}

// OpKind is the kind of an operation.
type OpKind uint8

// The operations.
const (
	AddServer     OpKind = iota // ID, Settings
	SetServer                   // ID, Settings
	DeleteServer                // ID; no error if the server does not exist
	AddBackend                  // ID, Backend, Weight
	SetBackend                  // ID, Backend, Weight
	DeleteBackend               // ID, Backend; no error if the backend does not exist
)

// Op is one change of a balancer.
type Op struct {
	Kind     OpKind
	ID       ID
	Settings Settings
	Backend  netip.AddrPort
	Weight   uint32
}

// Errors of Apply that the plane handles.
var (
	// ErrForeign is returned if there is a server already that the plane did not make.
	ErrForeign = errors.New("the kernel has a virtual server there that is not ours")
	// ErrGone is returned if the server no longer exists.
	ErrGone = errors.New("a virtual server of ours has vanished from the kernel")
	// ErrDrifted is returned if the backends of a server differ from the plane's record.
	ErrDrifted = errors.New("the backends of a virtual server of ours have been changed")
	// ErrUnknown is returned if the kernel's answer was lost. A server that was to be added may
	// exist. The balancer remembers this, and a later AddServer or DeleteServer of the server finds
	// out.
	ErrUnknown = errors.New("what the kernel did is not known")
	// ErrNoScheduler is returned if the kernel lacks the scheduler. From then on Settings returns
	// another one.
	ErrNoScheduler = errors.New("the kernel does not have the scheduler")
)
