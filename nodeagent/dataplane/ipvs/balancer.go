package ipvs

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	moby "github.com/moby/ipvs"
	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane/host"
	"portolan.dev/nodeagent/dataplane/ipvs/batch"
	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/dataplane/kernelmode"
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

// failover is the kernel's scheduler that sends new connections to the backend with the greatest
// weight only. It replaces the kernel's dh: see the comment of the package.
const failover = "fo"

// sourceHashSlots is the kernel's number of slots of sh, with the default of the build option
// IP_VS_SH_TAB_BITS. If the sum of the weights exceeds it, the last backends get no clients.
const sourceHashSlots = 1 << 8

// balancer balances connections with the kernel's IPVS.
type balancer struct {
	writer  *session
	reader  *session        // used by Read and Traffic
	missing map[string]bool // schedulers that the kernel lacks
	// unknownServers holds the servers for which the kernel's answer to an AddServer is unknown, with
	// the settings to be added. They got no backends.
	unknownServers map[plan.Frontend]kernel.Settings
}

var _ kernel.Balancer = (*balancer)(nil)

// open opens the balancer in the network namespace at a path. If the path is empty, it uses the
// namespace of the process.
func open(namespace string) (*balancer, error) {
	writer, err := newSession(namespace)
	if err != nil {
		return nil, err
	}
	if err := writer.probe(); err != nil {
		writer.close()
		return nil, err
	}
	reader, err := newSession(namespace)
	if err != nil {
		writer.close()
		return nil, err
	}
	return &balancer{
		writer: writer, reader: reader,
		missing: map[string]bool{}, unknownServers: map[plan.Frontend]kernel.Settings{},
	}, nil
}

// probe requests a virtual server that no kernel can make, because its mask is longer than an address, and expects
// to be refused for that reason. Some kernels accept every request but ignore it. The kernel checks the mask after
// everything else that a virtual server needs, such as the scheduler rr, so nothing is made, and nothing that
// belongs to another program can be taken for the probe's own.
func (s *session) probe() error {
	service := identity(plan.Frontend{Addr: netip.MustParseAddrPort("[2001:db8::]:20000"), Protocol: plan.TCP})
	service.SchedName, service.Netmask = moby.RoundRobin, 129
	err := s.execute([]batch.Change{{Command: batch.NewService, Service: service}})[0]
	switch {
	case err == nil:
		return errors.New("the kernel takes virtual servers, even one that cannot be, but does not keep them")
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EEXIST), errors.Is(err, unix.EAFNOSUPPORT): // the last one without IPv6
		return nil
	}
	return fmt.Errorf("the kernel does not take virtual servers: %w", err)
}

// Name implements kernel.Balancer.
func (b *balancer) Name() string { return Name }

// Traits implements kernel.Balancer. The kernel copies the time of affinity into its entry for a client when it
// makes the entry, and has no request that changes or removes the entry.
func (b *balancer) Traits() kernel.Traits {
	return kernel.Traits{
		Refuses: true, PrefersHeaviest: true, SourceHashSlots: sourceHashSlots, ConcurrentRead: true, BatchSize: 4 * changesPerCall,
		KeepsAffinity: true,
	}
}

// ApplySettings implements kernel.Balancer.
func (b *balancer) ApplySettings(t kernelmode.Timeouts) []kernelmode.Setting {
	return append(host.ApplySettings(host.Sysctls{}, sysctls(host.Version())), b.writer.applyTimeouts(t)...)
}

// sysctls returns the IPVS settings for a kernel version.
func sysctls(major, minor int) []kernelmode.Setting {
	list := []kernelmode.Setting{
		{Name: "net.ipv4.vs.conntrack", Want: "1", Watch: true},                 // required by masquerading
		{Name: "net.ipv4.vs.expire_nodest_conn", Want: "1", Watch: true},        // cuts removed backends
		{Name: "net.ipv4.vs.expire_quiescent_template", Want: "1", Watch: true}, // affinity leaves a draining backend
	}
	if major == 4 && minor >= 1 || major == 5 && minor < 9 {
		// In these versions, a reused source port costs the client a second.
		list = append(list, kernelmode.Setting{Name: "net.ipv4.vs.conn_reuse_mode", Want: "0"})
	}
	return list
}

// Settings implements kernel.Balancer.
func (b *balancer) Settings(v *plan.VirtualServer) kernel.Settings {
	s := kernel.Settings{Scheduler: schedulerName(v.Scheduler)}
	if s.Scheduler == plan.RoundRobin.String() && weighted(v.Reals) {
		s.Scheduler = moby.WeightedRoundRobin
	}
	if b.missing[s.Scheduler] {
		s.Scheduler = plan.RoundRobin.String()
	}
	if s.Scheduler == plan.SourceHash.String() || s.Scheduler == plan.Maglev.String() {
		s.Flags |= flagFallback // otherwise the kernel refuses the clients of a backend that drains
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

// schedulerName returns the kernel's name of the scheduler that a plan's scheduler uses.
func schedulerName(s plan.Scheduler) string {
	switch s {
	case plan.DefaultScheduler:
		return plan.RoundRobin.String()
	case plan.DestinationHash:
		return failover
	}
	return s.String()
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

// MissingScheduler implements kernel.Balancer.
func (b *balancer) MissingScheduler(s plan.Scheduler) (remedy string, lacks bool) {
	name := schedulerName(s)
	if !b.missing[name] {
		return "", false
	}
	return "load the kernel module ip_vs_" + name, true
}

// SetSources implements kernel.Balancer. It does nothing, because stand-ins separate the clients.
func (b *balancer) SetSources(plan.Sources) error { return nil }

// Apply implements kernel.Balancer. Servers are added before anything else, because a server of
// another program must not get backends of ours.
func (b *balancer) Apply(ops []kernel.Op) []error {
	errs := make([]error, len(ops))
	refused := map[plan.Frontend]error{}
	b.carryOut(ops, errs, func(o *kernel.Op) bool { return o.Kind == kernel.AddServer })
	for i, err := range errs {
		if err != nil {
			refused[serverOf(ops[i].ID)] = err
		}
	}
	b.carryOut(ops, errs, func(o *kernel.Op) bool { return o.Kind != kernel.AddServer && refused[serverOf(o.ID)] == nil })
	if len(refused) > 0 {
		for i := range ops {
			if errs[i] == nil {
				errs[i] = refused[serverOf(ops[i].ID)]
			}
		}
	}
	return errs
}

// carryOut carries out the operations that which selects.
func (b *balancer) carryOut(ops []kernel.Op, errs []error, which func(*kernel.Op) bool) {
	changes, opIndex := make([]batch.Change, 0, len(ops)), make([]int, 0, len(ops)) // of each change
	for i := range ops {
		o := &ops[i]
		if !which(o) {
			continue
		}
		if c := changeOf(o); b.resolveUnknown(&c) {
			changes, opIndex = append(changes, c), append(opIndex, i)
		} else {
			errs[i] = b.errorOf(&c, o, nil)
		}
	}
	if len(changes) == 0 {
		return
	}
	for k, err := range b.writer.execute(changes) {
		i := opIndex[k]
		errs[i] = b.errorOf(&changes[k], &ops[i], err)
	}
}

// resolveUnknown finds out whether the server of a change exists, if that is unknown. If it exists
// with the settings that it was to be added with, it is ours, and is changed instead of added. A
// server of another program is not removed. resolveUnknown reports whether the change is still to be
// made.
func (b *balancer) resolveUnknown(c *batch.Change) bool {
	if len(b.unknownServers) == 0 {
		return true
	}
	id := frontendOf(&c.Service)
	asked, unknown := b.unknownServers[id]
	if !unknown {
		return true
	}
	found, backends, err := b.writer.server(id)
	exists := err == nil
	if !exists && !errors.Is(err, unix.ESRCH) { // it stays unknown
		return c.Command != batch.DelService
	}
	delete(b.unknownServers, id)
	ours := exists && found == asked && len(backends) == 0
	if c.Command == batch.NewService && ours {
		c.Command = batch.UpdateService
	}
	return c.Command != batch.DelService || !exists || ours
}

// errorOf turns the kernel's answer to a change into an error of package kernel, or into nil if the
// result is as intended.
func (b *balancer) errorOf(c *batch.Change, o *kernel.Op, err error) error {
	id, scheduler := serverOf(o.ID), o.Settings.Scheduler
	_, unknown := b.unknownServers[id]
	switch {
	case unknown && o.Kind == kernel.DeleteServer:
		return kernel.ErrUnknown
	case err == nil && o.Kind == kernel.AddServer:
		delete(b.unknownServers, id)
		return nil
	case err == nil || alreadyDone(c.Command, err) && (c.Command == batch.DelService || c.Command == batch.DelDestination):
		return nil
	case maybeDone(err):
		if o.Kind == kernel.AddServer {
			b.unknownServers[id] = settingsOf(&c.Service)
		}
		return fmt.Errorf("%w: %w", kernel.ErrUnknown, err)
	case scheduler != "" && scheduler != moby.RoundRobin && errors.Is(err, unix.ENOENT):
		b.missing[scheduler] = true
		return fmt.Errorf("scheduler %s: %w", scheduler, kernel.ErrNoScheduler)
	case c.Command == batch.NewService && errors.Is(err, unix.EEXIST) && unknown:
		return fmt.Errorf("%w: %w", kernel.ErrUnknown, err)
	case c.Command == batch.NewService && errors.Is(err, unix.EEXIST):
		return kernel.ErrForeign
	case c.Command != batch.NewService && errors.Is(err, unix.ESRCH):
		return kernel.ErrGone
	case c.Command == batch.NewDestination && errors.Is(err, unix.EEXIST), c.Command == batch.UpdateDestination && errors.Is(err, unix.ENOENT):
		return errors.Join(kernel.ErrDrifted, err)
	}
	return err
}

// Read implements kernel.Balancer.
func (b *balancer) Read(ids []kernel.ID) (map[plan.Frontend]kernel.Server, error) {
	found, err := b.reader.servers()
	if err != nil {
		return nil, err
	}
	known := slices.DeleteFunc(slices.Clone(ids), func(id kernel.ID) bool {
		_, ok := found[serverOf(id)]
		return !ok
	})
	backends, err := b.reader.backendsOf(known)
	if err != nil {
		return nil, err
	}
	out := make(map[plan.Frontend]kernel.Server, len(known))
	for _, id := range known {
		out[id.Frontend] = kernel.Server{Settings: found[serverOf(id)], Backends: backends[id.Frontend]}
	}
	return out, nil
}

// Traffic implements kernel.Balancer. The kernel updates its counters every two seconds.
func (b *balancer) Traffic(ids []kernel.ID) (map[plan.Frontend]kernelmode.Traffic, error) {
	found, err := b.reader.traffic()
	if err != nil {
		return nil, err
	}
	out := make(map[plan.Frontend]kernelmode.Traffic, len(ids))
	for _, id := range ids {
		if t, ok := found[serverOf(id)]; ok {
			out[id.Frontend] = t
		}
	}
	return out, nil
}

// Backends implements kernel.Balancer.
func (b *balancer) Backends(ids ...kernel.ID) (map[plan.Frontend][]kernel.Backend, error) {
	return b.writer.backendsOf(ids)
}

// backendsOf reads the backends of servers, by the kernel's frontend.
func (s *session) backendsOf(ids []kernel.ID) (map[plan.Frontend][]kernel.Backend, error) {
	at := make([]plan.Frontend, len(ids))
	for i, id := range ids {
		at[i] = serverOf(id)
	}
	lists, err := s.backends(at...)
	if err != nil {
		return nil, err
	}
	out := make(map[plan.Frontend][]kernel.Backend, len(ids))
	for i, id := range ids {
		backends := make([]kernel.Backend, len(lists[i]))
		for k := range lists[i] {
			backends[k] = backendOf(id.Protocol, &lists[i][k])
		}
		out[id.Frontend] = backends
	}
	return out, nil
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
	b.writer.close()
	b.reader.close()
}
