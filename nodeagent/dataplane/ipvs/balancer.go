package ipvs

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/plan"
)

// Name is how the plane is called in configuration.
const Name = "ipvs"

// New returns a data plane that forwards by IPVS. It takes up what an earlier
// process has left in the kernel.
func New(o kernel.Options) (*kernel.Plane, error) {
	return kernel.New(o, func() (kernel.Balancer, error) { return open(o.Namespace) })
}

// Probe tells whether the kernel can do IPVS in a namespace, and why not.
func Probe(namespace string) error {
	return kernel.Within(namespace, func() error {
		b, err := open(namespace)
		if err != nil {
			return err
		}
		b.Close()
		return nil
	})
}

// balancer is the kernel's IPVS.
type balancer struct {
	namespace string
	sock      *socket
	reader    *socket         // of Read alone
	requests  []request       // room for those of Apply
	missing   map[string]bool // schedulers that the kernel does not have
}

var _ kernel.Balancer = (*balancer)(nil)

// open opens the balancer of the calling thread's namespace, whose path is
// given.
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
	return &balancer{namespace: namespace, sock: sock, reader: reader, missing: map[string]bool{}}, nil
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

// Name implements kernel.Balancer.
func (b *balancer) Name() string { return Name }

// Traits implements kernel.Balancer.
func (b *balancer) Traits() kernel.Traits {
	return kernel.Traits{Sysctls: sysctls(kernel.Version()), Refuses: true, ReadsAside: true, Together: 4 * loadSize}
}

// sysctls are the settings of IPVS for a version of the kernel.
func sysctls(major, minor int) []kernel.Setting {
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

// weighted tells whether backends that take traffic differ in weight.
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

// SetSources implements kernel.Balancer: stand-ins tell clients apart.
func (b *balancer) SetSources(plan.Sources) error { return nil }

// Apply implements kernel.Balancer.
func (b *balancer) Apply(ops []kernel.Op) []error {
	requests := b.requests[:0]
	for i := range ops {
		requests = append(requests, requestOf(&ops[i]))
	}
	b.requests = requests
	errs := b.sock.do(requests)
	for i, err := range errs {
		errs[i] = b.judge(requests[i].cmd, ops[i].Settings.Scheduler, err)
	}
	return errs
}

func requestOf(o *kernel.Op) request {
	id := serviceID{o.ID.Addr, o.ID.Protocol}
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

// judge turns the kernel's answer into an error that the plane understands, or
// into none where all is as it was meant to be.
func (b *balancer) judge(cmd uint8, scheduler string, err error) error {
	switch {
	case err == nil || done(cmd, err) && (cmd == cmdDelService || cmd == cmdDelDest):
		return nil
	case scheduler != "" && scheduler != plan.RoundRobin.String() && errors.Is(err, unix.ENOENT):
		b.missing[scheduler] = true
		return fmt.Errorf("scheduler %s: %w", scheduler, kernel.ErrNoScheduler)
	case cmd == cmdNewService && errors.Is(err, unix.EEXIST):
		return kernel.ErrForeign
	case cmd != cmdNewService && errors.Is(err, unix.ESRCH):
		return kernel.ErrGone
	case cmd == cmdNewDest && errors.Is(err, unix.EEXIST), cmd == cmdSetDest && errors.Is(err, unix.ENOENT):
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
		at := serviceID{id.Addr, id.Protocol}
		if set, ok := found[at]; ok {
			list, listed := table[at]
			if !listed { // the list skips some where other namespaces have servers too
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

// Backends implements kernel.Balancer.
func (b *balancer) Backends(ids ...kernel.ID) (map[plan.Frontend][]kernel.Backend, error) {
	out := make(map[plan.Frontend][]kernel.Backend, len(ids))
	var errs []error
	for _, id := range ids {
		list, err := b.sock.destinations(serviceID{id.Addr, id.Protocol})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out[id.Frontend] = backends(id.Protocol, list)
	}
	return out, errors.Join(errs...)
}

// backends are destinations as the plane knows them. Flows of datagrams are
// what the kernel calls inactive.
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

// Remove implements kernel.Balancer: there is nothing but servers.
func (b *balancer) Remove() error { return nil }

// Close implements kernel.Balancer.
func (b *balancer) Close() {
	b.sock.close()
	b.reader.close()
}
