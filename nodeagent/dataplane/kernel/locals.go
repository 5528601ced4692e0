package kernel

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/dataplane/host"
	"portolan.dev/nodeagent/dataplane/packetfilter"
	"portolan.dev/nodeagent/dataplane/userspace"
)

// Locals makes virtual addresses local to the machine for the userspace plane, by the same routes as a plane in
// the kernel. An address in the ranges of the options is made local with its whole range, so that a service that
// ends is refused at once. Nothing is changed before the first address, so an agent with loopback addresses only
// needs no rights.
//
// The routes bear the protocol host.PlaneRoutes, by which the next agent of any mode recognises them if this one
// is killed. The invariant: an address for which the machine had a device or a route already gets no route.
type Locals struct {
	opts    Options
	log     *slog.Logger
	stop    chan struct{}
	stopped chan struct{}

	mu      sync.Mutex
	routes  *host.Routes
	journal *Journal // nil: no setting was changed
	users   map[netip.Addr]int
	// cover has the route of an address that was made local by one.
	cover map[netip.Addr]netip.Prefix
}

var _ userspace.Locals = (*Locals)(nil)

// OpenLocals returns Locals. It changes nothing.
func OpenLocals(o Options) (*Locals, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	l := &Locals{
		opts: o, log: o.Log, stop: make(chan struct{}), stopped: make(chan struct{}),
		users: map[netip.Addr]int{}, cover: map[netip.Addr]netip.Prefix{},
	}
	err := host.Within(o.Namespace, func() (err error) {
		l.routes, err = host.NewRoutes(host.PlaneRoutes)
		return err
	})
	if err != nil {
		return nil, err
	}
	go l.maintain()
	return l, nil
}

// maintain restores routes that another program has removed.
func (l *Locals) maintain() {
	defer close(l.stopped)
	for {
		select {
		case <-l.stop:
			return
		case <-l.routes.Lost():
			if err := l.Check(); err != nil {
				l.log.Warn("change of another program not repaired", "err", err)
			}
		}
	}
}

// Add implements userspace.Locals.
func (l *Locals) Add(addr netip.Addr) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users[addr] == 0 {
		if err := l.ensure(addr); err != nil {
			return err
		}
	}
	l.users[addr]++
	return nil
}

// ensure makes an address local unless it is.
func (l *Locals) ensure(addr netip.Addr) error {
	if l.isLocal(addr) {
		return nil
	}
	if err := l.protect(); err != nil {
		return err
	}
	route := l.routeOf(addr)
	if err := l.routes.Add(route); err != nil {
		return l.refused(route, err)
	}
	l.cover[addr] = route
	return nil
}

// isLocal reports whether an address is local, without a question to the kernel if its range has a route.
func (l *Locals) isLocal(addr netip.Addr) bool {
	route := l.routeOf(addr)
	return !route.IsSingleIP() && l.routes.Has(route) || l.routes.IsLocal(addr)
}

// routeOf returns the destination of the route for an address.
func (l *Locals) routeOf(addr netip.Addr) netip.Prefix {
	for _, r := range l.opts.ServiceCIDRs {
		if r.Contains(addr) {
			return r.Masked()
		}
	}
	return netip.PrefixFrom(addr, addr.BitLen())
}

// refused returns the error for a route that the agent may not add. A range concerns all services, so its error
// is one of the node.
func (l *Locals) refused(route netip.Prefix, err error) error {
	err = fmt.Errorf("virtual addresses are not local to this machine: %w", err)
	if !errors.Is(err, unix.EPERM) {
		return err
	}
	if route.IsSingleIP() {
		return &userspace.NotLocalError{Err: err, Remedy: privilege + localCommand(route)}
	}
	var commands []string
	for _, r := range l.opts.ServiceCIDRs {
		if !r.Addr().IsLoopback() {
			commands = append(commands, localCommand(r.Masked()))
		}
	}
	return &dataplane.NodeError{Err: err, Remedy: privilege + strings.Join(commands, " && ")}
}

const privilege = "give the agent CAP_NET_ADMIN, or run as root: "

// localCommand returns the command that makes a prefix local. No setting is needed for IPv6, because the plane
// binds its sockets without an address of a device.
func localCommand(p netip.Prefix) string {
	if p.Addr().Is6() {
		return "ip -6 route add local " + p.String() + " dev lo"
	}
	return "ip route add local " + p.String() + " dev lo"
}

// protect makes the node not answer its networks for the addresses that it makes local, if that is configured.
func (l *Locals) protect() error {
	if !l.opts.StrictARP || l.journal != nil {
		return nil
	}
	return host.Within(l.opts.Namespace, func() error {
		journal, err := OpenJournal(l.opts.Journal)
		if err == nil {
			err = journal.SetComplete()
		}
		if err != nil {
			l.log.Warn("settings of ARP are not restored if the agent is killed", "err", err)
			if journal, err = OpenJournal(""); err != nil {
				return err
			}
		}
		made, err := arpSettings{host.Sysctls{}, journal}.apply(nil)
		if err != nil {
			return errors.Join(err, journal.Close())
		}
		for _, s := range made {
			if s.Err != nil {
				l.log.Warn("kernel setting", "setting", s.String())
			}
		}
		l.journal = journal
		return nil
	})
}

// Release implements userspace.Locals. The route of a range stays.
func (l *Locals) Release(addr netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users[addr]--; l.users[addr] > 0 {
		return
	}
	delete(l.users, addr)
	route, routed := l.cover[addr]
	delete(l.cover, addr)
	if routed && route.IsSingleIP() {
		if err := l.routes.Delete(route); err != nil {
			l.log.Warn("route left behind", "err", err)
		}
	}
}

// Check implements userspace.Locals.
func (l *Locals) Check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.users) == 0 {
		return nil
	}
	if err := l.routes.Read(); err != nil {
		return err
	}
	var errs []error
	for addr := range l.users {
		if l.isLocal(addr) {
			continue
		}
		l.log.Warn("drift repaired", "difference", "no route to "+l.routeOf(addr).String())
		errs = append(errs, l.ensure(addr))
	}
	return errors.Join(errs...)
}

// Close implements userspace.Locals. It also removes the state of earlier agents from the kernel, apart from the
// servers of balancers: routes, the packet filter of the planes in the kernel, and settings. If another agent runs in
// the namespace, it removes only its own routes.
func (l *Locals) Close() error {
	close(l.stop)
	<-l.stopped
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.routes.Close()
	var errs []error
	if l.opts.Shared {
		for _, r := range l.cover {
			errs = append(errs, l.routes.Delete(r))
		}
		return errors.Join(append(errs, l.restoreSettings())...)
	}
	for _, r := range l.routes.All() {
		errs = append(errs, l.routes.Delete(r))
	}
	err := packetfilter.RemoveTables(l.opts.Namespace)
	if errors.Is(err, unix.EPERM) && len(l.routes.All()) == 0 {
		err = nil // an agent without rights has no means to look, but a plane in the kernel would have left routes
	}
	return errors.Join(append(errs, err, l.restoreSettings())...)
}

// restoreSettings restores the settings that this agent, or an earlier one in userspace mode, has changed.
func (l *Locals) restoreSettings() error {
	if _, err := os.Stat(l.opts.Journal); l.journal == nil && err != nil {
		return nil // there is none, or an agent without rights has no access
	}
	return host.Within(l.opts.Namespace, func() (err error) {
		if l.journal == nil {
			if l.journal, err = OpenJournal(l.opts.Journal); err != nil {
				return err
			}
		}
		return errors.Join(arpSettings{host.Sysctls{}, l.journal}.restore(), l.journal.Remove())
	})
}
