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

// Server is a virtual server as the kernel has it.
type Server struct {
	ID       kernel.ID
	Settings kernel.Settings
	Backends map[netip.AddrPort]*Backend
}

// Backend is a backend of a server.
type Backend struct {
	Weight uint32
	// Since and Drained are when it took its last connection and when that ends; zero while it
	// takes more. One that never took any has none.
	DrainStart, DrainEnd time.Time
}

// Busy reports whether the backend has connections.
func (b *Backend) Busy(now time.Time) bool { return b.Weight > 0 || now.Before(b.DrainEnd) }

// Removal is the removal of a backend from a server. The server may stay or be removed too.
type Removal struct {
	Server  *Server
	Address netip.AddrPort
	Backend *Backend
}

// Machine is safe for concurrent use.
type Machine struct {
	// Changed is called after each change of a server, with the server as it is then; without
	// Backends if it is gone. This and the next ones must not ask the machine anything.
	OnChange func(s *Server)
	// Removed is called before a backend is removed.
	OnRemove func(r Removal)
	// Refused is called when the balancer refuses an operation about a server.
	OnRefuse func(id kernel.ID)
	// Died is called when a process dies that had not ended.
	OnDeath func()
	// Lingers is how long connections go on that a backend has when it takes no new ones any more.
	DrainTime func(backend netip.AddrPort) time.Duration
	// Refuses reports whether the balancer refuses an operation.
	Refuses func() bool

	dir string // the folder of the agents' folders

	mu        sync.Mutex
	processes int // processes so far
	addresses []netip.Addr
	watchers  map[*Process]func()
	servers   map[plan.Frontend]*Server
	standIns  map[kernel.ID]bool // that the balancer was told of
	filter    *rules             // nil: none is installed
	routes    map[netip.Prefix]bool
	settings  map[string]string
}

// New returns a machine with some addresses. Agents have their folders below dir.
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

// Servers are the servers that the kernel has.
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

// Misled are the stand-ins that clients are sent to by the packet filter, though the kernel has no
// such server.
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

// Reaches reports whether the machine takes packets to an address for its own.
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

// folder returns the folder of the agent in one of its lives.
func (m *Machine) folder(number int) string { return filepath.Join(m.dir, fmt.Sprint(number)) }

// Process is one life of the agent. It implements nodemachine.Machine and kernel.Host.
type Process struct {
	machine     *Machine
	number      int
	dead        bool // guarded by the machine's mu
	changesLeft int  // changes of the balancer until it dies; negative: it does not
}

// Start begins a life of the agent.
func (m *Machine) Start() *Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.processes == 0 {
		if err := os.MkdirAll(m.folder(0), 0o750); err != nil {
			panic(err)
		}
	}
	p := &Process{machine: m, number: m.processes, changesLeft: -1}
	return p
}

// Folder is the folder that the process has for its files.
func (p *Process) Folder() string { return p.machine.folder(p.number) }

// Kill ends the life at once: from here on nothing that the process does has an effect, and the
// next one finds its files as they are now.
func (p *Process) Kill() {
	p.machine.mu.Lock()
	defer p.machine.mu.Unlock()
	p.kill()
}

// KillAfter ends the life after so many more changes of the balancer.
func (p *Process) KillAfter(changes int) {
	p.machine.mu.Lock()
	defer p.machine.mu.Unlock()
	p.changesLeft = changes
}

// kill is Kill. The caller holds the machine's mu.
func (p *Process) kill() {
	if p.dead {
		return
	}
	p.dead = true
	m := p.machine
	delete(m.watchers, p)
	m.OnDeath()
	m.processes = p.number + 1
	if err := copyFolder(m.folder(p.number), m.folder(m.processes)); err != nil {
		panic(err)
	}
}

// copyFolder copies the files of a folder into a new one. A file that goes meanwhile was one for
// the time of a write.
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
