package ipvs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/dataplane/userspace"
	"portolan.dev/nodeagent/plan"
)

// Name is how the plane is called in configuration.
const Name = "ipvs"

// StandIns are the addresses that stand for those of services whose clients
// outside have backends of their own. They never leave the node.
var StandIns = []netip.Prefix{netip.MustParsePrefix("240.112.0.0/16"), netip.MustParsePrefix("fd70:6f72:746f:6c61::/64")}

// Options of the plane.
type Options struct {
	Log *slog.Logger // default: discard
	// Journal is a file that says what is ours when the agent starts again.
	// Empty: what is in the kernel then counts as somebody else's.
	Journal string
	// ServiceCIDRs are the ranges of virtual addresses. One outside of them gets
	// a route of its own.
	ServiceCIDRs []netip.Prefix
	// Namespace is the path of a network namespace; empty: the process's.
	Namespace string
}

// Plane is the data plane. It is safe for concurrent use.
type Plane struct {
	opts Options
	log  *slog.Logger
	// loopback serves frontends on loopback addresses, whose packets cannot
	// leave the node.
	loopback *userspace.Plane
	stop     chan struct{}
	stopped  chan struct{}
	kick     chan struct{} // something drains

	// mu guards what follows.
	mu        sync.Mutex
	closed    bool
	sock      *socket
	filter    *kernel.Filter
	routes    *kernel.Routes
	conntrack *kernel.Conntrack
	journal   *kernel.Journal
	settings  []kernel.Setting
	sources   plan.Sources
	fronts    map[plan.Frontend]*front
	services  map[serviceID]*service // what is ours in the kernel
	standIns  standIns
	ranges    []netip.Prefix     // virtual addresses with one route for all
	vips      map[netip.Addr]int // frontends by virtual address that has a route of its own
	missing   map[string]bool    // schedulers that the kernel does not have
}

var _ dataplane.Plane = (*Plane)(nil)

// New takes up what an earlier process has left in the kernel, and changes
// nothing about it.
func New(o Options) (*Plane, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	p := &Plane{
		opts: o, log: o.Log, stop: make(chan struct{}), stopped: make(chan struct{}), kick: make(chan struct{}, 1),
		fronts: map[plan.Frontend]*front{}, services: map[serviceID]*service{}, standIns: newStandIns(),
		vips: map[netip.Addr]int{}, missing: map[string]bool{},
	}
	if err := kernel.Within(o.Namespace, p.open); err != nil {
		p.free()
		return nil, err
	}
	if err := p.adopt(); err != nil {
		p.free()
		return nil, err
	}
	p.loopback = userspace.New(userspace.Options{Log: o.Log})
	go p.drain()
	return p, nil
}

// open opens everything that belongs to the namespace of the calling thread.
func (p *Plane) open() error {
	var err error
	if p.sock, err = openSocket(); err != nil {
		return err
	}
	if err := p.sock.probe(); err != nil {
		return err
	}
	if p.routes, err = kernel.NewRoutes(); err != nil {
		return err
	}
	if p.conntrack, err = kernel.NewConntrack(); err != nil {
		return err
	}
	if p.journal, err = kernel.OpenJournal(p.opts.Journal); err != nil {
		return err
	}
	p.settings = kernel.Settle(slices.Concat(kernel.Forwarding, settingsFor(kernel.Version())))
	for _, s := range p.settings {
		if s.Err != nil {
			p.log.Warn("kernel setting", "setting", s.String())
		} else {
			p.log.Info("kernel setting", "setting", s.String())
		}
	}
	p.filter, err = kernel.NewFilter(p.opts.Namespace, p.opts.ServiceCIDRs, StandIns)
	return err
}

// settingsFor are the settings of IPVS for a version of the kernel.
func settingsFor(major, minor int) []kernel.Setting {
	list := []kernel.Setting{
		{Name: "net.ipv4.vs.conntrack", Want: "1"},                 // masquerading needs it
		{Name: "net.ipv4.vs.expire_nodest_conn", Want: "1"},        // what goes to a removed backend is cut
		{Name: "net.ipv4.vs.expire_quiescent_template", Want: "1"}, // affinity leaves a draining backend
	}
	if major == 4 && minor >= 1 || major == 5 && minor < 9 {
		// In between, a reused source port costs the client a second.
		list = append(list, kernel.Setting{Name: "net.ipv4.vs.conn_reuse_mode", Want: "0"})
	}
	return list
}

// probe makes a virtual server and reads it back: there are kernels that accept
// everything and do nothing.
func (s *socket) probe() error {
	id := serviceID{netip.MustParseAddrPort("198.51.100.0:20000"), plan.TCP}
	err := s.do([]request{serviceRequest(cmdNewService, id, settings{scheduler: "rr"})})[0]
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("the kernel does not take virtual servers: %w", err)
	}
	found, err := s.services()
	if err != nil {
		return err
	}
	s.do([]request{deleteService(id)})
	if _, ok := found[id]; !ok {
		return errors.New("the kernel takes virtual servers, but does not keep them")
	}
	return nil
}

// Probe tells whether the kernel can do IPVS in a namespace, and why not.
func Probe(namespace string) error {
	return kernel.Within(namespace, func() error {
		s, err := openSocket()
		if err != nil {
			return err
		}
		defer s.close()
		return s.probe()
	})
}

// Name implements dataplane.Plane.
func (p *Plane) Name() string { return Name }

// Settings tells what became of the kernel's settings.
func (p *Plane) Settings() []kernel.Setting { return p.settings }

// Programmed implements dataplane.Plane.
func (p *Plane) Programmed(key plan.Key) *plan.VirtualServer {
	if key.Addr.Addr().IsLoopback() {
		return p.loopback.Programmed(key)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.fronts[key.Frontend]; f != nil {
		return f.servers[key.Audience]
	}
	return nil
}

// Connections implements dataplane.Plane. Flows count as connections where the
// protocol has none.
func (p *Plane) Connections(key plan.Key) map[netip.AddrPort]uint32 {
	if key.Addr.Addr().IsLoopback() {
		return p.loopback.Connections(key)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.fronts[key.Frontend]
	if f == nil || p.closed {
		return nil
	}
	out := map[netip.AddrPort]uint32{}
	for _, id := range f.ids(key.Audience) {
		list, err := p.sock.destinations(id)
		if err != nil {
			p.log.Warn("connections not read", "server", id, "err", err)
			continue
		}
		for _, d := range list {
			n := d.active
			if id.protocol == plan.UDP {
				n = d.inactive
			}
			out[d.addr] += n
		}
	}
	return out
}

// Close implements dataplane.Plane: the kernel goes on forwarding.
func (p *Plane) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	p.mu.Unlock()
	close(p.stop)
	<-p.stopped
	return errors.Join(p.loopback.Close(), p.free())
}

// free closes what is open.
func (p *Plane) free() error {
	var errs []error
	if p.sock != nil {
		p.sock.close()
	}
	if p.routes != nil {
		p.routes.Close()
	}
	if p.conntrack != nil {
		p.conntrack.Close()
	}
	if p.filter != nil {
		errs = append(errs, p.filter.Close())
	}
	if p.journal != nil {
		errs = append(errs, p.journal.Close())
	}
	return errors.Join(errs...)
}

// clock is now; drains are bounded by it.
func clock() time.Time { return time.Now() }

// contextFailure says that there was no time for a step.
func contextFailure(ctx context.Context, s plan.Step) dataplane.Failure {
	return dataplane.Failure{Step: s, Err: context.Cause(ctx)}
}
