package kernel

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"portolan.dev/nodeagent/plan"
)

// executeFull carries out the queued operations if there are as many as the balancer prefers at
// once.
func (w *applyRun) executeFull() {
	if n := w.plane.traits.BatchSize; n > 0 && len(w.ops) >= n {
		w.execute()
	}
}

// execute carries out the queued operations and updates the mirror with the results.
func (w *applyRun) execute() {
	if len(w.ops) == 0 {
		return
	}
	p := w.plane
	// A service is noted once and not for each of its operations, which are queued one after the
	// other, because its entry has all its draining backends.
	touched := slices.Compact(slices.Clone(w.opServices))
	for _, s := range touched {
		p.writeDrains(s)
	}
	if err := p.progress.Flush(); err != nil {
		for i := range w.ops {
			w.fail(w.ops[i].ID.For, err)
		}
	}
	for i, err := range p.balancer.Apply(w.ops) {
		if err != nil {
			w.failed(&w.ops[i], err)
			continue
		}
		w.succeeded(&w.ops[i], w.opServices[i])
	}
	for _, s := range touched {
		if p.services[s.id.Frontend] == s {
			p.writeDrains(s)
		} else {
			p.deleteDrains(s)
		}
	}
	clear(w.opServices)
	w.ops, w.opServices = w.ops[:0], w.opServices[:0]
}

// succeeded updates the mirror after an operation that succeeded.
func (w *applyRun) succeeded(o *Op, s *service) {
	p := w.plane
	switch o.Kind {
	case AddServer:
		s.Settings = o.Settings
		p.services[o.ID.Frontend] = s
		delete(p.uncertain, o.ID.Frontend)
	case SetServer:
		s.Settings = o.Settings
	case DeleteServer:
		delete(p.services, o.ID.Frontend)
		delete(p.uncertain, o.ID.Frontend)
	case AddBackend:
		s.setBackend(o.Backend, o.Weight)
	case SetBackend:
		b := s.backend(o.Backend)
		if b == nil {
			return
		}
		b.weight, b.altered = o.Weight, false
		if o.Weight > 0 || hasBackend(p.fronts[s.id.For].wantedAt(s.id), o.Backend) {
			s.setDraining(b, time.Time{})
		}
	case DeleteBackend:
		s.removeBackend(o.Backend)
		at := s.id.For
		if (at.Protocol == plan.UDP || p.traits.UsesConntrack) && !p.serves(at, o.Backend) {
			w.flows = append(w.flows, s.flow(o.Backend))
		}
	}
}

// failed updates the mirror after an operation that failed, and stores its error.
func (w *applyRun) failed(o *Op, err error) {
	p, id := w.plane, o.ID
	switch unknown := errors.Is(err, ErrUnknown); {
	case o.Kind == AddServer && unknown:
		p.uncertain[id.Frontend] = uncertainServer{id: id}
	case o.Kind == AddServer:
		delete(p.uncertain, id.Frontend)
	case o.Kind == SetBackend && o.Weight == 0: // it still takes traffic, so it does not drain
		if s := p.services[id.Frontend]; s != nil {
			if b := s.backend(o.Backend); b != nil && b.weight > 0 {
				s.setDraining(b, time.Time{})
			}
		}
	}
	switch {
	case errors.Is(err, ErrNoScheduler):
		w.retrySchedulers = true
	case errors.Is(err, ErrGone):
		delete(p.services, id.Frontend) // the next try adds it again
	case errors.Is(err, ErrDrifted):
		p.reread(id)
	}
	w.fail(id.For, fmt.Errorf("%s: %w", id, err))
}

// forgetFlows removes flows to removed backends, and unanswered ones to backends that drain.
func (w *applyRun) forgetFlows() {
	if len(w.flows)+len(w.unanswered) == 0 {
		return
	}
	if err := w.plane.conntrack.Forget(w.flows, w.unanswered); err != nil {
		w.plane.log.Warn("flows to removed backends may go on, and clients wait for backends that drain", "err", err)
	}
}
