package announce

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"portolan.dev/nodeagent/machine"
	"portolan.dev/services/kit/app"
)

// burst are the pauses before the announcements of an address for which the node begins to answer. They add up
// to more than a second, because Linux ignores changes of a neighbour for a second after the last change.
var burst = []time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond, 700 * time.Millisecond, 1100 * time.Millisecond, 2200 * time.Millisecond}

// Responder answers the neighbours on the node's interfaces.
type Responder struct {
	patterns []string // of the names of interfaces
	open     func(machine.Interface, bool) (machine.Neighbors, error)
	holder   *Holder
	metrics  *metrics
	log      *slog.Logger

	mu     sync.Mutex
	conns  map[connKey]*conn
	failed map[connKey]error // interfaces that could not be opened
	closed bool
	tasks  sync.WaitGroup
}

// connKey names one family of an interface.
type connKey struct {
	name string
	v6   bool
}

func (k connKey) protocol() string {
	if k.v6 {
		return "ndp"
	}
	return "arp"
}

// conn is an open interface.
type conn struct {
	machine.Neighbors
	key connKey
	of  machine.Interface
}

func newResponder(patterns []string, open func(machine.Interface, bool) (machine.Neighbors, error), holder *Holder, m *metrics, log *slog.Logger) *Responder {
	return &Responder{patterns: patterns, open: open, holder: holder, metrics: m, log: log, conns: map[connKey]*conn{}, failed: map[connKey]error{}}
}

// matches reports whether the node announces on an interface.
func (r *Responder) matches(name string) bool {
	return slices.ContainsFunc(r.patterns, func(pattern string) bool {
		ok, _ := path.Match(pattern, name) //nolint:errcheck // the configuration was checked
		return ok
	})
}

// SetInterfaces opens the interfaces that match the patterns, and closes removed ones. An interface that cannot
// be opened is tried again by the next call.
func (r *Responder) SetInterfaces(ctx context.Context, all []machine.Interface) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	wanted := map[connKey]machine.Interface{}
	for _, i := range all {
		for _, v6 := range []bool{false, true} {
			if r.matches(i.Name) && hasFamily(i, v6) {
				wanted[connKey{i.Name, v6}] = i
			}
		}
	}
	for key, c := range r.conns {
		if i, ok := wanted[key]; !ok || !i.Equal(c.of) {
			r.closeLocked(c)
		}
	}
	r.failed = map[connKey]error{}
	opened := false
	for key, i := range wanted {
		if r.conns[key] == nil {
			opened = r.openLocked(key, i) || opened
		}
	}
	r.watchLocked()
	if held := r.holder.Held(); opened && len(held) > 0 {
		r.announceLocked(ctx, held)
	}
}

// hasFamily reports whether an interface has an address of a family. Neighbour discovery needs a link-local
// address.
func hasFamily(i machine.Interface, v6 bool) bool {
	return slices.ContainsFunc(i.Prefixes, func(p netip.Prefix) bool {
		return v6 && p.Addr().Is6() && p.Addr().IsLinkLocalUnicast() || !v6 && p.Addr().Is4()
	})
}

func (r *Responder) openLocked(key connKey, i machine.Interface) bool {
	neighbors, err := r.open(i, key.v6)
	if err != nil {
		r.failed[key] = err
		return false
	}
	c := &conn{neighbors, key, i}
	r.conns[key] = c
	r.tasks.Go(func() { r.serve(c) })
	r.log.Info("announcing on an interface", "interface", key.name, "protocol", key.protocol())
	return true
}

func (r *Responder) closeLocked(c *conn) {
	delete(r.conns, c.key)
	if err := c.Close(); err != nil {
		r.log.Debug("close an interface", "interface", c.key.name, "err", err)
	}
}

// Changed follows a change of the rights: it begins or ends to listen for requests, and announces
// the addresses that the node has begun to answer for.
func (r *Responder) Changed(ctx context.Context, began []netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watchLocked()
	if len(began) > 0 {
		r.announceLocked(ctx, began)
	}
}

// watchLocked makes the interfaces receive requests for the held addresses.
func (r *Responder) watchLocked() {
	held := r.holder.Held()
	for key, c := range r.conns {
		if err := c.Watch(r.servedLocked(c, held)); err != nil {
			r.failed[key] = err
		}
	}
}

// servedLocked returns the addresses for which an interface answers: addresses in its subnets, and addresses
// that are in no subnet of any interface.
func (r *Responder) servedLocked(c *conn, all []netip.Addr) []netip.Addr {
	var served []netip.Addr
	for _, addr := range all {
		if addr.Is6() == c.key.v6 && (contains(c.of, addr) || !r.containedLocked(addr)) {
			served = append(served, addr)
		}
	}
	return served
}

func contains(i machine.Interface, addr netip.Addr) bool {
	return slices.ContainsFunc(i.Prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
}

func (r *Responder) containedLocked(addr netip.Addr) bool {
	for _, c := range r.conns {
		if contains(c.of, addr) {
			return true
		}
	}
	return false
}

// serve answers the requests of an interface until it is closed.
func (r *Responder) serve(c *conn) {
	for {
		request, err := c.Receive()
		if err != nil {
			r.lost(c, err)
			return
		}
		if !r.serves(c, request.Address) {
			continue
		}
		may, err := r.holder.Send(request.Address, func() error { return c.Answer(request) })
		if err != nil {
			r.log.Debug("answer a neighbour", "interface", c.key.name, "address", request.Address, "err", err)
		} else if may {
			r.metrics.answers.WithLabelValues(c.key.protocol()).Inc()
		}
	}
}

// lost forgets an interface that can no longer be read, unless it was closed. SetInterfaces opens
// it again if it is still there.
func (r *Responder) lost(c *conn, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conns[c.key] == c {
		r.closeLocked(c)
		r.failed[c.key] = err
	}
}

func (r *Responder) serves(c *conn, addr netip.Addr) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.servedLocked(c, []netip.Addr{addr})) > 0
}

// announceLocked announces addresses in the background, several times.
func (r *Responder) announceLocked(ctx context.Context, addrs []netip.Addr) {
	if r.closed {
		return
	}
	r.tasks.Go(func() {
		for _, pause := range burst {
			if !app.Pause(ctx, pause) {
				return
			}
			r.announceOnce(addrs)
		}
	})
}

func (r *Responder) announceOnce(addrs []netip.Addr) {
	for _, c := range r.open4And6() {
		r.mu.Lock()
		served := r.servedLocked(c, addrs)
		r.mu.Unlock()
		for _, addr := range served {
			may, err := r.holder.Send(addr, func() error { return c.Announce(addr) })
			if err != nil {
				r.log.Debug("announce", "interface", c.key.name, "address", addr, "err", err)
			} else if may {
				r.metrics.announcements.WithLabelValues(c.key.protocol()).Inc()
			}
		}
	}
}

func (r *Responder) open4And6() []*conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*conn
	for _, c := range r.conns {
		all = append(all, c)
	}
	return all
}

// Subnets returns the node's addresses on the interfaces on which it announces, with the lengths of
// their subnets, ordered.
func (r *Responder) Subnets() []netip.Prefix {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []netip.Prefix
	for key, c := range r.conns {
		for _, p := range c.of.Prefixes {
			if p.Addr().Is6() == key.v6 && !p.Addr().IsLinkLocalUnicast() {
				all = append(all, p)
			}
		}
	}
	slices.SortFunc(all, netip.Prefix.Compare)
	return slices.Compact(all)
}

// state returns the names of the open interfaces, ordered, and the reasons why others are not open.
func (r *Responder) state() (names []string, failures string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range r.conns {
		names = append(names, key.name)
	}
	slices.Sort(names)
	var reasons []string
	for _, err := range r.failed {
		reasons = append(reasons, err.Error())
	}
	slices.Sort(reasons)
	if len(names)+len(reasons) == 0 {
		reasons = append(reasons, fmt.Sprintf("no interface that is up matches -announce-interfaces=%s", strings.Join(r.patterns, ",")))
	}
	return slices.Compact(names), strings.Join(reasons, "; ")
}

// close closes all interfaces and waits for the tasks. Their context must have ended.
func (r *Responder) close() {
	r.mu.Lock()
	r.closed = true
	for _, c := range r.conns {
		r.closeLocked(c)
	}
	r.mu.Unlock()
	r.tasks.Wait()
}
