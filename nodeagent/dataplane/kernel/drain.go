package kernel

import (
	"maps"
	"net/netip"
	"slices"
	"time"
)

// drainEvery is the time between checks of backends that drain.
const drainEvery = 5 * time.Second

// sweepPause is the least time between two reads of all flows of the kernel. They are needed if
// connections exist in connection tracking only.
const sweepPause = time.Second

// watchDraining makes maintain check a service that is to be removed or has draining backends.
func (p *Plane) watchDraining(s *service) {
	p.draining[s] = true
	p.wake.Send()
}

// maintain removes backends when their connections have ended or their drain time is over, and
// immediately reverts changes of the packet filter and of routes by other programs, until the plane
// is closed.
func (p *Plane) maintain() {
	defer close(p.stopped)
	timer, pause := time.NewTimer(0), time.NewTimer(0)
	defer timer.Stop()
	defer pause.Stop()
	var foreign, lost <-chan struct{} // nil during a pause
	var swept time.Time
	for {
		select {
		case <-p.stop:
			return
		case <-pause.C:
			foreign, lost = p.filter.Changed(), p.routes.Lost()
			continue
		case <-foreign:
			p.repairNow(p.repairFilter)
			foreign, lost = nil, nil
			pause.Reset(repairPause)
			continue
		case <-lost:
			p.repairNow(p.repairRoutes)
			foreign, lost = nil, nil
			pause.Reset(repairPause)
			continue
		case <-p.wake:
			if rest := sweepPause - time.Since(swept); p.traits.UsesConntrack && rest > 0 {
				timer.Reset(rest)
				continue
			}
		case <-timer.C:
		}
		p.mu.Lock()
		next := p.sweep(clock())
		p.mu.Unlock()
		swept = time.Now()
		timer.Reset(next)
	}
}

// sweep removes the backends that have drained, and returns the time until the next check.
func (p *Plane) sweep(now time.Time) time.Duration {
	var leaving []*service
	var ids []ID
	for s := range p.draining {
		if p.services[s.id.Frontend] != s || p.fronts[s.id.For] == nil || s.draining == 0 && !p.unwanted(s) {
			delete(p.draining, s)
			continue
		}
		leaving = append(leaving, s)
		ids = append(ids, s.id)
	}
	if len(leaving) == 0 {
		return time.Hour
	}
	found, err := p.balancer.Backends(ids...)
	if err != nil {
		p.log.Warn("draining backends not read", "err", err)
	}
	w := p.newRun()
	next := drainEvery
	for _, s := range leaving {
		p.touch(s.id.For)
		busy := map[netip.AddrPort]bool{}
		list, known := found[s.id.Frontend]
		for _, b := range list {
			busy[b.Addr] = b.Connections+b.Closing > b.Unanswered
			if leaves := s.backend(b.Addr); b.Unanswered > 0 && leaves != nil && leaves.until != 0 {
				w.unanswered = append(w.unanswered, s.flow(b.Addr))
			}
		}
		if p.unwanted(s) && len(s.backends) > s.draining {
			w.queueRemovals(p.fronts[s.id.For])
			next = sweepPause
		}
		next = min(next, w.queueDrained(s, now, func(addr netip.AddrPort) bool { return busy[addr] || !known }))
	}
	w.execute()
	w.forgetFlows()
	settled := map[*frontendState]bool{}
	for _, s := range leaving {
		settled[p.fronts[s.id.For]] = true
	}
	p.reconcileFronts(slices.Collect(maps.Keys(settled)))
	for at, err := range w.errs {
		p.log.Warn("draining backend not removed", "server", at, "err", err)
	}
	select { // the next sweep checks the services that this one has started to drain
	case <-p.wake:
	default:
	}
	return next
}

// unwanted reports whether a service is to be removed. An earlier removal may have been refused, or
// the process may have died during it.
func (p *Plane) unwanted(s *service) bool { return p.fronts[s.id.For].wantedAt(s.id) == nil }

// queueDrained queues the removal of the backends of a service that have drained, and returns the
// time until the next check.
func (w *applyRun) queueDrained(s *service, now time.Time, busy func(netip.AddrPort) bool) time.Duration {
	wait := drainEvery
	left := len(s.backends)
	for i := range s.backends {
		b := &s.backends[i]
		until := time.Unix(0, b.until)
		switch {
		case b.until == 0:
		case until.After(now) && busy(b.addr):
			wait = min(wait, until.Sub(now))
		default:
			left--
			w.queue(Op{Kind: DeleteBackend, Backend: b.addr}, s)
		}
	}
	if left == 0 && w.plane.unwanted(s) {
		w.queue(Op{Kind: DeleteServer}, s)
	}
	return wait
}
