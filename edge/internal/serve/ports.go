package serve

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"portolan.dev/services/kit/guard"

	"portolan.dev/edge/internal/plan"
)

// forever is the limit of a drain that only the end of the server ends.
const forever = time.Duration(math.MaxInt64)

// add adds a port, which openClosed opens. The caller holds the lock.
func (s *Server) add(planned plan.Port) {
	p := newPort(s, planned)
	s.ports[planned.Frontend] = p
	s.closed[p] = struct{}{}
}

// drop closes a port and drops it once its connections have ended. The caller holds the lock.
func (s *Server) drop(frontend netip.AddrPort, p *port, limit time.Duration) {
	s.opts.Guard.Done(stepOpen(p), serviceOf(p.plan.Service))
	delete(s.ports, frontend)
	delete(s.closed, p)
	s.draining[p] = struct{}{}
	p.close(limit)
}

// openClosed opens each closed port if its address belongs to the machine. It tells the agent which addresses
// the edge wants and serves.
func (s *Server) openClosed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted, served := map[netip.Addr]bool{}, map[netip.Addr]bool{}
	for frontend := range s.ports {
		wanted[frontend.Addr()] = true
	}
	for p := range s.draining {
		wanted[p.plan.Frontend.Addr()] = true // connections continue at it
	}
	s.opts.Agent.Want(sorted(wanted))
	for p := range s.closed {
		if p.err = s.opts.Guard.Do(stepOpen(p), serviceOf(p.plan.Service), func() error { return s.open(p) }); isPanic(p.err) {
			delete(s.closed, p) // until its plan changes
		}
	}
	for frontend, p := range s.ports {
		if p.listener != nil {
			served[frontend.Addr()] = true
		}
	}
	s.opts.Agent.Serve(sorted(served))
}

func sorted(addrs map[netip.Addr]bool) []netip.Addr {
	return slices.SortedFunc(maps.Keys(addrs), netip.Addr.Compare)
}

// stepOpen returns the name of the step that opens a port.
func stepOpen(p *port) string { return "open " + p.frontend.String() }

// isPanic reports whether an error is a panic, of which the guard has written an Event.
func isPanic(err error) bool {
	_, ok := errors.AsType[*guard.Panic](err)
	return ok
}

// open opens a port, or returns why it cannot be opened. p.err has the reason of the last attempt.
func (s *Server) open(p *port) error {
	err := s.mayOpen(p.plan.Frontend.Addr())
	if err == nil {
		err = p.open()
	}
	var waits *notLocalError
	switch {
	case err == nil:
		delete(s.closed, p)
	case errors.As(err, &waits) || p.err != nil && p.err.Error() == err.Error():
	default:
		if svc := s.services[p.plan.Service]; svc != nil {
			s.warn(svc, problem{reasonListen, fmt.Sprintf("%s is not open: %v%s", p.plan.Frontend, err, remedy(p.plan.Frontend, err))})
		}
	}
	return err
}

// errOutside is the error of a port outside of the ranges of the configuration.
var errOutside = errors.New("the address is outside of the edge's -ranges")

// notLocalError reports that the edge cannot listen because the machine does not have the port's address
// yet.
type notLocalError struct{ why string }

// Error implements error.
func (e *notLocalError) Error() string { return e.why }

// mayOpen returns nil if a port at an address may be opened now, and otherwise the reason.
func (s *Server) mayOpen(addr netip.Addr) error {
	if len(s.opts.Ranges) > 0 && !slices.ContainsFunc(s.opts.Ranges, func(r netip.Prefix) bool { return r.Contains(addr) }) {
		return errOutside
	}
	if !s.opts.Agent.IsLocal(addr) {
		return &notLocalError{s.opts.Agent.Problem(addr)}
	}
	return nil
}

// remedy returns advice about a port that cannot be opened, or "" if there is none.
func remedy(frontend netip.AddrPort, err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Sprintf(": another program has port %d (see: ss -lnp 'sport = :%[1]d'): stop it, or bind it to one address instead of all", frontend.Port())
	case errors.Is(err, syscall.EACCES):
		return ": ports below net.ipv4.ip_unprivileged_port_start need a privilege: give the edge CAP_NET_BIND_SERVICE"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return ": it is no address of this machine: run the node's agent and set -agent, or add the address"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return ": too many open files: raise the limit (ulimit -n, or LimitNOFILE= of the unit)"
	}
	return ""
}

// drain runs shutdown with a context that lasts for the limit, and then done, with the lock held.
func (s *Server) drain(limit time.Duration, shutdown func(context.Context), done func()) {
	s.running.Go(func() {
		ctx, cancel := context.WithTimeout(s.life, limit)
		defer cancel()
		shutdown(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		done()
		s.Changed()
	})
}
