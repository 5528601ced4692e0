package ipvs

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane/host"
	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/plan"
)

// Name is the plane's name in the configuration.
const Name = "ipvs"

// New returns a data plane that forwards by IPVS. It takes over the state that an earlier process
// has left in the kernel.
func New(o kernel.Options) (*kernel.Plane, error) {
	return kernel.New(o, func() (kernel.Balancer, error) { return open(o.Namespace) })
}

// Probe returns an error unless the kernel supports IPVS in a namespace.
func Probe(namespace string) error {
	return host.Within(namespace, func() error {
		b, err := open(namespace)
		if err != nil {
			return err
		}
		b.Close()
		return nil
	})
}

// balancer balances connections with the kernel's IPVS.
type balancer struct {
	namespace string
	sock      *socket
	reader    *socket         // used by Read and Traffic
	requests  []request       // buffer of Apply
	of        []int           // indexes of the operations that the requests belong to
	missing   map[string]bool // schedulers that the kernel lacks
	// unsure holds the servers for which the kernel's answer to an AddServer is unknown. They got
	// no backends.
	unsure map[serviceID]settings
}

var _ kernel.Balancer = (*balancer)(nil)

// open opens the balancer in the calling thread's namespace, which has the given path.
func open(namespace string) (*balancer, error) {
	sock, err := openSocket()
	if err != nil {
		return nil, err
	}
	if err := sock.probe(); err != nil {
		sock.close()
		return nil, err
	}
	reader, err := openSocket()
	if err != nil {
		sock.close()
		return nil, err
	}
	return &balancer{namespace: namespace, sock: sock, reader: reader, missing: map[string]bool{}, unsure: map[serviceID]settings{}}, nil
}

// probe makes a virtual server and reads it back, because some kernels accept every request but
// ignore it.
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

// Name implements kernel.Balancer.
func (b *balancer) Name() string { return Name }

// Traits implements kernel.Balancer.
func (b *balancer) Traits() kernel.Traits {
	return kernel.Traits{Refuses: true, ReadsAside: true, Together: 4 * loadSize}
}

// Settle implements kernel.Balancer.
func (b *balancer) Settle(t host.Timeouts) []host.Setting {
	return append(host.ApplySettings(host.Sysctls{}, sysctls(host.Version())), b.sock.settleTimeouts(t)...)
}

// sysctls returns the IPVS settings for a kernel version.
func sysctls(major, minor int) []host.Setting {
	list := []host.Setting{
		{Name: "net.ipv4.vs.conntrack", Want: "1", Watch: true},                 // required by masquerading
		{Name: "net.ipv4.vs.expire_nodest_conn", Want: "1", Watch: true},        // cuts removed backends
		{Name: "net.ipv4.vs.expire_quiescent_template", Want: "1", Watch: true}, // affinity leaves a draining backend
	}
	if major == 4 && minor >= 1 || major == 5 && minor < 9 {
		// In these versions, a reused source port costs the client a second.
		list = append(list, host.Setting{Name: "net.ipv4.vs.conn_reuse_mode", Want: "0"})
	}
	return list
}

// Settings implements kernel.Balancer.
func (b *balancer) Settings(v *plan.VirtualServer) kernel.Settings {
	s := kernel.Settings{Scheduler: v.Scheduler.String()}
	if s.Scheduler == "" {
		s.Scheduler = plan.RoundRobin.String()
	}
	if s.Scheduler == plan.RoundRobin.String() && weighted(v.Reals) {
		s.Scheduler = "wrr"
	}
	if b.missing[s.Scheduler] {
		s.Scheduler = plan.RoundRobin.String()
	}
	if s.Scheduler == plan.SourceHash.String() || s.Scheduler == plan.Maglev.String() {
		if v.Flags&plan.HashFallback != 0 {
			s.Flags |= flagFallback
		}
		if v.Flags&plan.HashPort != 0 {
			s.Flags |= flagSourcePort
		}
	}
	if v.Affinity > 0 {
		s.Flags |= flagPersistent
		s.Affinity = max(time.Second, v.Affinity.Truncate(time.Second))
	}
	return s
}

// weighted reports whether the backends that take traffic differ in weight.
func weighted(reals []plan.RealServer) bool {
	var first uint32
	for _, r := range reals {
		switch {
		case r.Weight == 0:
		case first == 0:
			first = r.Weight
		case r.Weight != first:
			return true
		}
	}
	return false
}

// Lacks implements kernel.Balancer.
func (b *balancer) Lacks(s plan.Scheduler) (remedy string, lacks bool) {
	if !b.missing[s.String()] {
		return "", false
	}
	return fmt.Sprintf("load the kernel module ip_vs_%s", s), true
}

// SetSources implements kernel.Balancer. It does nothing, because stand-ins separate the clients.
func (b *balancer) SetSources(plan.Sources) error { return nil }

// Apply implements kernel.Balancer. Servers are added before anything else, because a server of
// another program must not get backends of ours.
func (b *balancer) Apply(ops []kernel.Op) []error {
	errs := make([]error, len(ops))
	refused := map[serviceID]error{}
	b.carryOut(ops, errs, func(o *kernel.Op) bool { return o.Kind == kernel.AddServer })
	for i, err := range errs {
		if err != nil {
			refused[serviceOf(ops[i].ID)] = err
		}
	}
	b.carryOut(ops, errs, func(o *kernel.Op) bool { return o.Kind != kernel.AddServer && refused[serviceOf(o.ID)] == nil })
	if len(refused) > 0 {
		for i := range ops {
			if errs[i] == nil {
				errs[i] = refused[serviceOf(ops[i].ID)]
			}
		}
	}
	return errs
}

// carryOut carries out the operations that which selects.
func (b *balancer) carryOut(ops []kernel.Op, errs []error, which func(*kernel.Op) bool) {
	requests, of := b.requests[:0], b.of[:0]
	for i := range ops {
		if which(&ops[i]) {
			requests, of = append(requests, requestOf(&ops[i])), append(of, i)
		}
	}
	b.requests, b.of = requests, of
	if len(requests) == 0 {
		return
	}
	b.resolve(requests)
	for k, err := range b.sock.do(requests) {
		o := &ops[of[k]]
		errs[of[k]] = b.judge(&requests[k], o, err)
	}
}

// resolve finds out whether servers in unsure exist, for the servers that requests concern. If a
// server exists with the settings that it was to be added with, it is ours, and its request changes
// it instead of adding it. A server of another program is not removed.
func (b *balancer) resolve(requests []request) {
	for id, asked := range b.unsure {
		about := slices.IndexFunc(requests, func(r request) bool { return r.id == id })
		if about < 0 {
			continue
		}
		found, err := b.sock.service(id)
		var list []destination
		if err == nil {
			list, err = b.sock.destinations(id)
		}
		r := &requests[about]
		unread := err != nil && !errors.Is(err, unix.ESRCH)
		if !unread {
			delete(b.unsure, id)
		}
		switch ours := found == asked && len(list) == 0; {
		case unread && r.cmd == cmdDelService:
			r.cmd = cmdGetService // has no effect
		case err != nil: // the server does not exist
		case r.cmd == cmdNewService && ours:
			r.cmd = cmdSetService
		case r.cmd == cmdDelService && !ours:
			r.cmd = cmdGetService
		}
	}
}

func serviceOf(id kernel.ID) serviceID { return serviceID{id.Addr, id.Protocol} }

func requestOf(o *kernel.Op) request {
	id := serviceOf(o.ID)
	set := settings{o.Settings.Scheduler, o.Settings.Flags, uint32(o.Settings.Affinity / time.Second)}
	switch o.Kind {
	case kernel.AddServer:
		return serviceRequest(cmdNewService, id, set)
	case kernel.SetServer:
		return serviceRequest(cmdSetService, id, set)
	case kernel.DeleteServer:
		return deleteService(id)
	case kernel.AddBackend:
		return destRequest(cmdNewDest, id, o.Backend, o.Weight)
	case kernel.SetBackend:
		return destRequest(cmdSetDest, id, o.Backend, o.Weight)
	}
	return destRequest(cmdDelDest, id, o.Backend, 0)
}

// judge turns the kernel's answer into an error of package kernel, or into nil if the result is as
// intended.
func (b *balancer) judge(r *request, o *kernel.Op, err error) error {
	scheduler := o.Settings.Scheduler
	_, unsure := b.unsure[r.id]
	switch {
	case unsure && o.Kind == kernel.DeleteServer:
		return kernel.ErrUnknown
	case err == nil && o.Kind == kernel.AddServer:
		delete(b.unsure, r.id)
		return nil
	case err == nil || done(r.cmd, err) && (r.cmd == cmdDelService || r.cmd == cmdDelDest):
		return nil
	case lost(err):
		if o.Kind == kernel.AddServer {
			b.unsure[r.id] = r.set
		}
		return fmt.Errorf("%w: %w", kernel.ErrUnknown, err)
	case scheduler != "" && scheduler != plan.RoundRobin.String() && errors.Is(err, unix.ENOENT):
		b.missing[scheduler] = true
		return fmt.Errorf("scheduler %s: %w", scheduler, kernel.ErrNoScheduler)
	case r.cmd == cmdNewService && errors.Is(err, unix.EEXIST) && unsure:
		return fmt.Errorf("%w: %w", kernel.ErrUnknown, err)
	case r.cmd == cmdNewService && errors.Is(err, unix.EEXIST):
		return kernel.ErrForeign
	case r.cmd != cmdNewService && errors.Is(err, unix.ESRCH):
		return kernel.ErrGone
	case r.cmd == cmdNewDest && errors.Is(err, unix.EEXIST), r.cmd == cmdSetDest && errors.Is(err, unix.ENOENT):
		return errors.Join(kernel.ErrDrifted, err)
	}
	return err
}

// Read implements kernel.Balancer.
func (b *balancer) Read(ids []kernel.ID) (map[plan.Frontend]kernel.Server, error) {
	found, err := b.reader.services()
	if err != nil {
		return nil, err
	}
	table, err := readTable(b.namespace)
	if err != nil {
		return nil, err
	}
	out := make(map[plan.Frontend]kernel.Server, len(ids))
	for _, id := range ids {
		at := serviceOf(id)
		if set, ok := found[at]; ok {
			list, listed := table[at]
			if !listed { // the list omits servers if other namespaces have servers too
				if list, err = b.reader.destinations(at); err != nil {
					return nil, err
				}
			}
			out[id.Frontend] = kernel.Server{
				Settings: kernel.Settings{Scheduler: set.scheduler, Flags: set.flags, Affinity: time.Duration(set.timeout) * time.Second},
				Backends: backends(id.Protocol, list),
			}
		}
	}
	return out, nil
}

// Traffic implements kernel.Balancer. The kernel updates its counters every two seconds.
func (b *balancer) Traffic(ids []kernel.ID) (map[plan.Frontend]kernel.Traffic, error) {
	found, err := b.reader.traffic()
	if err != nil {
		return nil, err
	}
	out := make(map[plan.Frontend]kernel.Traffic, len(ids))
	for _, id := range ids {
		if t, ok := found[serviceOf(id)]; ok {
			out[id.Frontend] = t
		}
	}
	return out, nil
}

// Backends implements kernel.Balancer.
func (b *balancer) Backends(ids ...kernel.ID) (map[plan.Frontend][]kernel.Backend, error) {
	out := make(map[plan.Frontend][]kernel.Backend, len(ids))
	var errs []error
	for _, id := range ids {
		list, err := b.sock.destinations(serviceOf(id))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out[id.Frontend] = backends(id.Protocol, list)
	}
	return out, errors.Join(errs...)
}

// backends converts destinations. The kernel counts UDP flows as inactive.
func backends(p plan.Protocol, list []destination) []kernel.Backend {
	out := make([]kernel.Backend, len(list))
	for i, d := range list {
		out[i] = kernel.Backend{Addr: d.addr, Weight: d.weight, Connections: d.active, Closing: d.inactive}
		if p == plan.UDP {
			out[i].Connections, out[i].Closing = d.inactive, d.active
		}
	}
	return out
}

// Remedy implements kernel.Balancer.
func (b *balancer) Remedy(err error) string {
	if errors.Is(err, kernel.ErrForeign) {
		return "see who made it: ipvsadm -Ln; the agent never touches what it did not set up"
	}
	return ""
}

// Remove implements kernel.Balancer. It does nothing, because servers are all that the balancer
// keeps in the kernel.
func (b *balancer) Remove() error { return nil }

// Close implements kernel.Balancer.
func (b *balancer) Close() {
	b.sock.close()
	b.reader.close()
}
