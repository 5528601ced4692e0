package machine

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"

	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/dataplane/kernelmode"
	"portolan.dev/nodeagent/plan"
)

// balancer implements kernel.Balancer with the behavior of IPVS.
type balancer struct{ *Process }

var errRefused = errors.New("cannot allocate memory")

// Name implements kernel.Balancer.
func (balancer) Name() string { return mode }

// Traits implements kernel.Balancer. BatchSize is small, so that the plane needs several batches.
func (balancer) Traits() kernel.Traits {
	return kernel.Traits{Refuses: true, ConcurrentRead: true, BatchSize: 5}
}

// ApplySettings implements kernel.Balancer.
func (balancer) ApplySettings(kernelmode.Timeouts) []kernelmode.Setting { return nil }

// Settings implements kernel.Balancer.
func (balancer) Settings(v *plan.VirtualServer) kernel.Settings {
	return kernel.Settings{Scheduler: v.Scheduler.String(), Affinity: v.Affinity}
}

// MissingScheduler implements kernel.Balancer.
func (balancer) MissingScheduler(plan.Scheduler) (string, bool) { return "", false }

// SetSources implements kernel.Balancer.
func (balancer) SetSources(plan.Sources) error { return nil }

// Remedy implements kernel.Balancer.
func (balancer) Remedy(error) string { return "" }

// Remove implements kernel.Balancer.
func (balancer) Remove() error { return nil }

// Close implements kernel.Balancer.
func (balancer) Close() {}

// Apply implements kernel.Balancer. Like the balancer for IPVS, it adds servers before it carries
// out other operations.
func (b balancer) Apply(ops []kernel.Op) []error {
	errs := make([]error, len(ops))
	refused := map[plan.Frontend]error{}
	for i := range ops {
		if ops[i].Kind == kernel.AddServer {
			if errs[i] = b.apply(&ops[i]); errs[i] != nil {
				refused[ops[i].ID.Frontend] = errs[i]
			}
		}
	}
	for i := range ops {
		if ops[i].Kind == kernel.AddServer {
			continue
		}
		if errs[i] = refused[ops[i].ID.Frontend]; errs[i] == nil {
			errs[i] = b.apply(&ops[i])
		}
	}
	return errs
}

// apply carries out an operation and calls the hooks of the machine.
func (b balancer) apply(o *kernel.Op) error {
	if err := b.lock(); err != nil {
		return err
	}
	m := b.machine
	defer m.mu.Unlock()
	if b.changesLeft == 0 {
		b.kill()
		return errDead
	}
	if o.ID.For != o.ID.Frontend {
		m.standIns[o.ID] = true
	}
	if m.Refuses() {
		m.OnRefuse(o.ID)
		return errRefused
	}
	if b.changesLeft > 0 {
		b.changesLeft--
	}
	if err := m.execute(o); err != nil {
		return err
	}
	s := m.servers[o.ID.Frontend]
	if s == nil {
		s = &Server{ID: o.ID}
	}
	m.OnChange(s)
	return nil
}

// execute carries out an operation. The caller holds mu.
func (m *Machine) execute(o *kernel.Op) error {
	s := m.servers[o.ID.Frontend]
	switch {
	case o.Kind == kernel.AddServer && s != nil:
		return kernel.ErrForeign
	case o.Kind == kernel.AddServer:
		m.servers[o.ID.Frontend] = &Server{ID: o.ID, Settings: o.Settings, Backends: map[netip.AddrPort]*Backend{}}
		return nil
	case o.Kind == kernel.DeleteServer:
		if s != nil {
			for _, at := range slices.SortedFunc(maps.Keys(s.Backends), netip.AddrPort.Compare) {
				m.OnRemove(Removal{s, at, s.Backends[at]})
			}
		}
		delete(m.servers, o.ID.Frontend)
		return nil
	case s == nil:
		return kernel.ErrGone
	case o.Kind == kernel.SetServer:
		s.Settings = o.Settings
		return nil
	}
	return m.executeBackend(s, o)
}

func (m *Machine) executeBackend(s *Server, o *kernel.Op) error {
	b := s.Backends[o.Backend]
	switch o.Kind {
	case kernel.AddBackend:
		if b != nil {
			return kernel.ErrDrifted
		}
		s.Backends[o.Backend] = &Backend{Weight: o.Weight}
	case kernel.SetBackend:
		switch {
		case b == nil:
			return kernel.ErrDrifted
		case o.Weight > 0:
			b.DrainStart, b.DrainEnd = time.Time{}, time.Time{}
		case b.Weight > 0:
			b.DrainStart = time.Now()
			b.DrainEnd = b.DrainStart.Add(m.DrainTime(o.Backend))
		}
		b.Weight = o.Weight
	default:
		if b != nil {
			m.OnRemove(Removal{s, o.Backend, b})
		}
		delete(s.Backends, o.Backend)
	}
	return nil
}

// Read implements kernel.Balancer.
func (b balancer) Read(ids []kernel.ID) (map[plan.Frontend]kernel.Server, error) {
	if err := b.lock(); err != nil {
		return nil, err
	}
	defer b.machine.mu.Unlock()
	found := map[plan.Frontend]kernel.Server{}
	for _, id := range ids {
		if s := b.machine.servers[id.Frontend]; s != nil {
			found[id.Frontend] = kernel.Server{Settings: s.Settings, Backends: s.backends()}
		}
	}
	return found, nil
}

// Own implements kernel.Balancer. The journal is never lost.
func (balancer) Own() ([]kernel.ID, error) { return nil, nil }

// Backends implements kernel.Balancer.
func (b balancer) Backends(ids ...kernel.ID) (map[plan.Frontend][]kernel.Backend, error) {
	found, err := b.Read(ids)
	all := map[plan.Frontend][]kernel.Backend{}
	for at, s := range found {
		all[at] = s.Backends
	}
	return all, err
}

func (s *Server) backends() []kernel.Backend {
	var all []kernel.Backend
	now := time.Now()
	for at, b := range s.Backends {
		backend := kernel.Backend{Addr: at, Weight: b.Weight}
		if b.Busy(now) {
			backend.Connections = 1
		}
		all = append(all, backend)
	}
	return all
}

// Traffic implements kernel.Balancer.
func (balancer) Traffic([]kernel.ID) (map[plan.Frontend]kernelmode.Traffic, error) { return nil, nil }
