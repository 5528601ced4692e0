package nftables

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane/host"
	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/dataplane/kernelmode"
	"portolan.dev/nodeagent/dataplane/netfilter"
	"portolan.dev/nodeagent/plan"
)

// Name is the plane's name in the configuration.
const Name = "nftables"

// transactionSize is the approximate number of elements in one transaction. Larger transactions
// would only take more memory.
const transactionSize = 20000

// New returns a data plane that forwards by nftables. It takes over the state that an earlier
// process has left in the kernel.
func New(o kernel.Options) (*kernel.Plane, error) {
	return kernel.New(o, func() (kernel.Balancer, error) { return open(o.Namespace, o.Count) })
}

// OpenPredecessor reads the state that a plane with these options has left in the kernel, for a
// plane of another kind that replaces it.
func OpenPredecessor(o kernel.Options) (*kernel.Predecessor, error) {
	return kernel.OpenPredecessor(o, func() (kernel.Balancer, error) { return open(o.Namespace, false) })
}

// balancer balances connections with the kernel's nftables.
type balancer struct {
	conn    *netfilter.Conn
	flows   *host.Conntrack
	tables  [2]*table // IPv4, IPv6
	sources plan.Sources
	counts  bool // whether servers have counters
	// mirrorValid is set if the kernel's tables match the mirrors in tables.
	mirrorValid bool
}

var _ kernel.Balancer = (*balancer)(nil)

// open opens the balancer in the calling thread's namespace, which has the given path. It counts
// the traffic of servers if count is set and the kernel supports it.
func open(namespace string, count bool) (*balancer, error) {
	counts := count && probe(namespace, true) == nil
	if !counts {
		if err := Probe(namespace); err != nil {
			return nil, err
		}
	}
	b := &balancer{tables: newTables(tableName, counts), counts: counts}
	var err error
	if b.conn, err = netfilter.Dial(namespace); err != nil {
		return nil, err
	}
	if b.flows, err = host.NewConntrack(); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

func newTables(name string, counts bool) [2]*table {
	return [2]*table{newTable(name, false, counts), newTable(name, true, counts)}
}

func (b *balancer) tableOf(at plan.Frontend) *table {
	if at.Addr.Addr().Is6() {
		return b.tables[1]
	}
	return b.tables[0]
}

// Name implements kernel.Balancer.
func (b *balancer) Name() string { return Name }

// Traits implements kernel.Balancer.
func (b *balancer) Traits() kernel.Traits {
	return kernel.Traits{SplitsClients: true, UsesConntrack: true}
}

// ApplySettings implements kernel.Balancer. There are no settings, because connection tracking
// keeps the connections.
func (b *balancer) ApplySettings(kernelmode.Timeouts) []kernelmode.Setting { return nil }

// Settings implements kernel.Balancer.
func (b *balancer) Settings(v *plan.VirtualServer) kernel.Settings {
	s := kernel.Settings{Scheduler: v.Scheduler.String()}
	switch v.Scheduler {
	case plan.SourceHash, plan.Maglev:
		if v.Flags&plan.HashPort != 0 {
			s.Flags |= flagPort
		}
	case plan.DestinationHash:
	default:
		s.Scheduler = plan.RoundRobin.String()
	}
	if v.Affinity > 0 {
		s.Affinity = max(time.Second, v.Affinity.Truncate(time.Second))
	}
	return s
}

// MissingScheduler implements kernel.Balancer.
func (b *balancer) MissingScheduler(s plan.Scheduler) (remedy string, lacks bool) {
	switch s {
	case plan.LeastConnections, plan.ShortestDelay, plan.NeverQueue:
		return "nftables counts no connections: load the kernel module ip_vs, or choose rr", true
	}
	return "", false
}

// SetSources implements kernel.Balancer.
func (b *balancer) SetSources(s plan.Sources) error {
	if b.sources.Equal(&s) {
		return nil
	}
	b.sources = s
	if !b.mirrorValid { // install writes them with everything else
		return nil
	}
	for _, t := range b.tables {
		b.conn.FlushSet(t.pods)
		b.conn.FlushSet(t.nodes)
		if err := b.addSources(t); err != nil {
			return err
		}
	}
	if b.conn.Flush() == nil {
		return nil
	}
	return b.install()
}

func (b *balancer) addSources(t *table) error {
	for s, prefixes := range map[*nftables.Set][]netip.Prefix{t.pods: b.sources.Pods, t.nodes: b.sources.Node} {
		if list := netfilter.IntervalElements(prefixes, t.V6); len(list) > 0 {
			if err := b.conn.SetAddElements(s, list); err != nil {
				return fmt.Errorf("set %s: %w", s.Name, err)
			}
		}
	}
	return nil
}

// Apply implements kernel.Balancer. All changes of one server are made in the same transaction.
func (b *balancer) Apply(ops []kernel.Op) []error {
	errs := make([]error, len(ops))
	if !b.mirrorValid {
		if err := b.install(); err != nil {
			for i := range errs {
				errs[i] = err
			}
			return errs
		}
	}
	steps := b.serverChanges(ops, errs)
	for len(steps) > 0 {
		n, size := 0, 0
		for n < len(steps) && size < transactionSize {
			size += 2 + len(steps[n].ops)
			n++
		}
		b.commit(steps[:n], errs)
		steps = steps[n:]
	}
	return errs
}

// serverChanges combines the operations on each server into one change.
func (b *balancer) serverChanges(ops []kernel.Op, errs []error) []*serverChange {
	var steps []*serverChange
	byServer := map[key]*serverChange{}
	for i := range ops {
		o := &ops[i]
		k := keyOf(o.ID)
		s := byServer[k]
		if s == nil {
			t := b.tableOf(o.ID.For)
			s = &serverChange{table: t, key: k, old: t.servers[k]}
			if s.old != nil {
				s.new = s.old.clone()
			}
			byServer[k] = s
			steps = append(steps, s)
		}
		if errs[i] = s.addOp(o); errs[i] == nil {
			s.ops = append(s.ops, i)
		}
	}
	for _, s := range steps {
		if s.new != nil {
			s.new.assignSlots()
		}
	}
	return steps
}

// addOp adds an operation to the change.
func (s *serverChange) addOp(o *kernel.Op) error {
	if s.new == nil {
		switch o.Kind {
		case kernel.AddServer:
			s.new = &server{class: class{outside: s.key.outside}}
		case kernel.DeleteServer, kernel.DeleteBackend:
			return nil
		default:
			return kernel.ErrGone
		}
	}
	switch o.Kind {
	case kernel.AddServer, kernel.SetServer:
		s.new.Settings = o.Settings
	case kernel.DeleteServer:
		s.new = nil
	case kernel.AddBackend, kernel.SetBackend:
		s.new.set(o.Backend, o.Weight)
	case kernel.DeleteBackend:
		s.new.remove(o.Backend)
	}
	return nil
}

// commit makes changes. If that fails, the kernel's tables may differ from the mirror, so commit
// builds them anew and tries again. If it fails again, isolateFailures finds the changes at fault.
func (b *balancer) commit(steps []*serverChange, errs []error) {
	err := b.applyChanges(steps)
	if err == nil {
		return
	}
	if b.install() == nil {
		err = b.applyChanges(steps)
	}
	b.isolateFailures(steps, errs, err)
}

// isolateFailures finds the changes that fail among changes that failed together with err. It tries
// each half on its own, and stores the errors by operation.
func (b *balancer) isolateFailures(steps []*serverChange, errs []error, err error) {
	switch {
	case err == nil:
		return
	case len(steps) > 1 && !errors.Is(err, unix.EPERM):
		for _, half := range [][]*serverChange{steps[:len(steps)/2], steps[len(steps)/2:]} {
			b.isolateFailures(half, errs, b.applyChanges(half))
		}
		return
	}
	for _, s := range steps {
		for _, i := range s.ops {
			errs[i] = err
		}
	}
}

// applyChanges makes all changes in one transaction, or none of them.
func (b *balancer) applyChanges(steps []*serverChange) error {
	c := newChange(b.conn)
	for _, s := range steps {
		c.addChange(s)
	}
	if err := c.commit(); err != nil {
		return err
	}
	for _, s := range steps {
		if s.new == nil {
			delete(s.table.servers, s.key)
		} else {
			s.table.servers[s.key] = s.new
		}
	}
	return nil
}

// install builds the tables in one transaction and replaces the existing ones. Clients keep their
// backends.
func (b *balancer) install() error {
	c := newChange(b.conn)
	for _, t := range b.tables {
		remembered := b.affinityElements(t)
		b.conn.AddTable(t.Table)
		b.conn.DelTable(t.Table)
		b.conn.AddTable(t.Table)
		if err := b.build(t); err != nil {
			return err
		}
		for set, elements := range remembered {
			for part := range slices.Chunk(elements, chunk) {
				if err := b.conn.SetAddElements(set, part); err != nil {
					return err
				}
			}
		}
		clear(t.chains)
		for k, s := range t.servers {
			c.noteElements(&serverChange{table: t, key: k, new: s})
		}
	}
	if err := c.commit(); err != nil {
		b.mirrorValid = false
		return err
	}
	b.mirrorValid = true
	return nil
}

// affinityElements returns the clients with affinity, by set.
func (b *balancer) affinityElements(t *table) map[*nftables.Set][]nftables.SetElement {
	out := map[*nftables.Set][]nftables.SetElement{}
	for i := range t.sets {
		outside, set := i == 1, t.sets[i].affinity
		err := b.conn.Elements(set, func(m netfilter.Member) {
			if n := t.remembered(m, outside); n != 0 {
				out[set] = append(out[set], nftables.SetElement{Key: bytes.Clone(m.Key), Val: number(n), Timeout: m.Expires})
			}
		})
		if err != nil { // the table does not exist yet
			continue
		}
	}
	return out
}

// remembered returns the number of the member in an element of affinity, or 0. In tables of earlier
// versions the element contains the backend's address.
func (t *table) remembered(m netfilter.Member, outside bool) uint32 {
	if n, ok := numberOf(m.Value); ok {
		return n
	}
	at, err := t.frontendOf(m.Key[min(len(m.Key), int(t.AddrLen())):])
	addr, err2 := t.backendOf(m.Value)
	s := t.servers[key{at, outside}]
	if err != nil || err2 != nil || s == nil {
		return 0
	}
	return s.memberOf(addr)
}

// build queues the parts of a table that all servers share.
func (b *balancer) build(t *table) error {
	all := []*nftables.Set{t.pods, t.nodes}
	for i := range t.sets {
		all = append(all, t.sets[i].all()...)
	}
	for _, s := range all {
		if err := b.conn.AddSet(s, nil); err != nil {
			return fmt.Errorf("set %s: %w", s.Name, err)
		}
	}
	base := t.base()
	for _, c := range base {
		b.conn.AddChain(c.Chain)
	}
	for _, c := range base {
		for _, exprs := range c.rules {
			b.conn.AddRule(&nftables.Rule{Table: t.Table, Chain: c.Chain, Exprs: exprs})
		}
	}
	return b.addSources(t)
}

// Remedy implements kernel.Balancer.
func (b *balancer) Remedy(err error) string {
	switch {
	case errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.ENOMEM), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOSPC):
		return "the kernel has no room for more: " + netfilter.ListTables
	}
	return netfilter.ListTables
}

// Remove implements kernel.Balancer.
func (b *balancer) Remove() error {
	for _, t := range b.tables {
		b.conn.AddTable(t.Table) // so that DelTable finds one
		b.conn.DelTable(t.Table)
		clear(t.servers)
		clear(t.chains)
	}
	b.mirrorValid = false
	return b.conn.Flush()
}

// Close implements kernel.Balancer.
func (b *balancer) Close() {
	b.conn.CloseLasting() //nolint:errcheck // there is nothing to do about it
	if b.flows != nil {
		b.flows.Close()
	}
}
