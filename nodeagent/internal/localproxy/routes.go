package localproxy

import (
	"errors"
	"maps"
	"net/netip"
	"time"

	"portolan.dev/nodeagent/machine"
)

// The reasons why an address is not local.
const (
	noService   = "no service of the class portolan.dev/edge has the address with ipMode Proxy, as far as the agent knows"
	notEligible = "the node takes no traffic of load balancers now"
)

// openRoutes opens the routes if the node forwards in its kernel, and reports whether they are open.
func (p *Proxies) openRoutes() bool {
	if p.routes != nil || !p.opts.Kernel {
		return p.routes != nil
	}
	routes, err := p.opts.Open()
	if err != nil {
		p.warn(err)
		return false
	}
	p.routes = routes
	return true
}

func (p *Proxies) warn(err error) {
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		p.opts.Log.Warn("routes of a proxy", "err", err)
	}
}

// RemoveRoutes removes the routes that agents have left on a machine. No agent may be running.
func RemoveRoutes(open func() (machine.LocalRoutes, error)) error {
	routes, err := open()
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return err
	}
	defer routes.Close()
	var errs []error
	for _, route := range routes.All() {
		errs = append(errs, routes.Delete(route))
	}
	return errors.Join(errs...)
}

func (p *Proxies) closeRoutes() {
	if p.routes != nil {
		p.routes.Close()
	}
}

// follow makes exactly the addresses of target local. It returns the time after which it must be called
// again. If that is 0, it must be called after a change only.
func (p *Proxies) follow(now time.Time) (next time.Duration) {
	p.mu.Lock()
	idle := p.current == nil && len(p.local) == 0
	p.mu.Unlock()
	if idle {
		return 0
	}
	allowed, live := p.opts.Addresses()
	eligible := p.opts.Eligible()
	p.mu.Lock()
	target, errs, next := p.target(now, allowed, live, eligible)
	p.mu.Unlock()
	if p.makeLocal(target, errs) {
		next = retryAfter
	}
	p.mu.Lock()
	changed := !maps.Equal(p.local, target)
	p.local = target
	if p.awaits && !now.Before(p.since.Add(p.awaitProxy)) {
		p.awaits, changed = false, true
	}
	changed = p.setServed() || changed
	news := changed || !maps.Equal(p.errs, errs)
	p.errs = errs
	if news && p.current != nil {
		p.current.Wake()
	}
	p.mu.Unlock()
	if changed {
		p.opts.Changed()
	}
	return next
}

// target returns the addresses that should be local, and the reasons why other wanted addresses should not
// be. next is the time until the result changes by itself, or 0 if it does not. The caller holds the lock.
func (p *Proxies) target(now time.Time, allowed map[netip.Addr]bool, live, eligible bool) (target map[netip.Addr]bool, errs map[netip.Addr]string, next time.Duration) {
	target, errs = map[netip.Addr]bool{}, map[netip.Addr]string{}
	keep := p.since.Add(p.keepRoutes).Sub(now)
	if p.current == nil && keep > 0 {
		next = keep
	}
	if await := p.since.Add(p.awaitProxy).Sub(now); p.awaits && await > 0 {
		next = await
	}
	for addr := range p.local {
		exists := allowed[addr] || !live // a view from the disk may lack it
		if exists && (p.wanted[addr] || p.current == nil && keep > 0) {
			target[addr] = true
		}
	}
	for addr := range p.wanted {
		switch {
		case target[addr]:
		case !allowed[addr]:
			errs[addr] = noService
		case !eligible:
			errs[addr] = notEligible
		default:
			target[addr] = true
		}
	}
	return target, errs, next
}

// makeLocal makes exactly the addresses of target local. An address that the kernel refuses is moved from
// target to errs. makeLocal reports whether it must be called again because a change failed.
func (p *Proxies) makeLocal(target map[netip.Addr]bool, errs map[netip.Addr]string) (failed bool) {
	if !p.openRoutes() {
		return false
	}
	own, err := p.routes.Addresses()
	if err != nil {
		p.warn(err)
		return true
	}
	for addr := range target {
		if own[addr] {
			continue
		}
		if err := p.routes.Add(netip.PrefixFrom(addr, addr.BitLen())); err != nil {
			delete(target, addr)
			errs[addr], failed = err.Error(), true
		}
	}
	for _, route := range p.routes.All() {
		if target[route.Addr()] {
			continue
		}
		if err := p.routes.Delete(route); err != nil {
			p.warn(err)
			failed = true
		}
	}
	return failed
}
