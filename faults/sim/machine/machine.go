package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/dataplane/packetfilter"
	"portolan.dev/nodeagent/plan"
)

// Server is a virtual server in the kernel.
type Server struct {
	ID       kernel.ID
	Settings kernel.Settings
	Backends map[netip.AddrPort]*Backend
}

// Backend is a backend of a server.
type Backend struct {
	Weight uint32
	// DrainStart is the time at which the weight became 0, and DrainEnd the time at which the last
	// connection ends. Both are zero while the weight is above 0, and for a backend that was added
	// with weight 0.
	DrainStart, DrainEnd time.Time
}

// Busy reports whether the backend has connections.
func (b *Backend) Busy(now time.Time) bool { return b.Weight > 0 || now.Before(b.DrainEnd) }

// Removal describes the removal of a backend, alone or together with its server.
type Removal struct {
	Server  *Server
	Address netip.AddrPort
	Backend *Backend
}

// Machine is a machine in memory. It is safe for concurrent use. The hooks are called with the
// machine's mutex locked, so they must not call methods of the machine.
type Machine struct {
	// OnChange is called after each change of a server, with its new state. Backends is nil if the
	// server does not exist.
	OnChange func(s *Server)
	// OnRemove is called before a backend is removed.
	OnRemove func(r Removal)
	// OnRefuse is called when the balancer refuses an operation on a server.
	OnRefuse func(id kernel.ID)
	// OnDeath is called when a process is killed.
	OnDeath func()
	// DrainTime returns how long the connections of a backend last after its weight became 0.
	DrainTime func(backend netip.AddrPort) time.Duration
	// Refuses reports whether the balancer refuses the next operation.
	Refuses func() bool

	dir string // has the folders of the processes

	mu         sync.Mutex
	generation int // of the next process; increases with each killed process
	addresses  []netip.Addr
	watchers   map[*Process]func()
	servers    map[plan.Frontend]*Server
	standIns   map[kernel.ID]bool // those in operations so far, including refused ones
	filter     *rules             // nil if none is installed
	routes     map[netip.Prefix]bool
	settings   map[string]string
}

// New returns a machine with the given addresses. The folders of its processes are in dir.
func New(dir string, addresses ...netip.Addr) *Machine {
	return &Machine{
		dir: dir, addresses: addresses, watchers: map[*Process]func(){}, servers: map[plan.Frontend]*Server{}, routes: map[netip.Prefix]bool{},
		standIns: map[kernel.ID]bool{},
		settings: map[string]string{
			"net.ipv4.ip_forward": "0", "net.ipv6.conf.all.forwarding": "0",
			"net.ipv4.conf.all.arp_ignore": "0", "net.ipv4.conf.all.arp_announce": "0",
		},
	}
}

// SetAddresses changes the addresses of the machine.
func (m *Machine) SetAddresses(all ...netip.Addr) {
	m.mu.Lock()
	m.addresses = all
	callbacks := slices.Collect(maps.Values(m.watchers))
	m.mu.Unlock()
	for _, changed := range callbacks {
		changed()
	}
}

// Servers returns copies of the kernel's servers.
func (m *Machine) Servers() []Server {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Server
	for _, s := range m.servers {
		copied := *s
		copied.Backends = map[netip.AddrPort]*Backend{}
		for at, b := range s.Backends {
			backend := *b
			copied.Backends[at] = &backend
		}
		all = append(all, copied)
	}
	return all
}

// MissingStandIns returns the stand-ins to which the packet filter sends clients although the
// kernel does not have them.
func (m *Machine) MissingStandIns() (all []kernel.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.standIns {
		if m.filter != nil && m.filter.elements[packetfilter.Split(id.For, id.Addr.Addr())] && m.servers[id.Frontend] == nil {
			all = append(all, id)
		}
	}
	return all
}

// IsLocal reports whether the machine accepts packets to an address as its own.
func (m *Machine) IsLocal(addr netip.Addr) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.Contains(m.addresses, addr) {
		return true
	}
	for route := range m.routes {
		if route.Contains(addr) {
			return true
		}
	}
	return false
}

// folder returns the folder of the processes of a generation.
func (m *Machine) folder(generation int) string {
	return filepath.Join(m.dir, fmt.Sprint(generation))
}

// Process is a process of the agent. It implements nodemachine.Machine and kernel.Host.
type Process struct {
	machine     *Machine
	generation  int  // the same for two processes if the first one ended normally
	dead        bool // guarded by the machine's mu
	changesLeft int  // changes of the balancer until the process dies; negative for no limit
}

// Start starts a process of the agent.
func (m *Machine) Start() *Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.generation == 0 {
		if err := os.MkdirAll(m.folder(0), 0o750); err != nil {
			panic(err)
		}
	}
	return &Process{machine: m, generation: m.generation, changesLeft: -1}
}

// Folder returns the folder for the files of the process.
func (p *Process) Folder() string { return p.machine.folder(p.generation) }

// Kill kills the process. From then on its operations have no effect, and the next process starts
// with the files as they are now.
func (p *Process) Kill() {
	p.machine.mu.Lock()
	defer p.machine.mu.Unlock()
	p.kill()
}

// KillAfter kills the process after the given number of changes of the balancer.
func (p *Process) KillAfter(changes int) {
	p.machine.mu.Lock()
	defer p.machine.mu.Unlock()
	p.changesLeft = changes
}

// kill kills the process. The caller holds the machine's mu.
func (p *Process) kill() {
	if p.dead {
		return
	}
	p.dead = true
	m := p.machine
	delete(m.watchers, p)
	m.OnDeath()
	m.generation = p.generation + 1
	if err := copyFolder(m.folder(p.generation), m.folder(m.generation)); err != nil {
		panic(err)
	}
}

// copyFolder copies the files of a folder into a new folder. It ignores files that disappear
// meanwhile, because they are the temporary files of writes.
func copyFolder(from, to string) error {
	if err := os.MkdirAll(to, 0o750); err != nil {
		return err
	}
	files, err := os.ReadDir(from)
	for _, f := range files {
		content, readErr := os.ReadFile(filepath.Join(from, f.Name()))
		if errors.Is(readErr, fs.ErrNotExist) {
			continue
		}
		err = errors.Join(err, readErr, os.WriteFile(filepath.Join(to, f.Name()), content, 0o600))
	}
	return err
}
