package userspace

import (
	"errors"
	"net/netip"
	"slices"
	"sync"

	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/backends"
)

var errClosed = errors.New("the data plane is closed")

// socket is the open socket of a frontend.
type socket interface{ Close() error }

// frontend is one address, port and protocol. It has at most one socket, and a pool of backends for
// each audience.
type frontend struct {
	plane *Plane
	key   plan.Frontend

	mu      sync.Mutex
	sources plan.Sources
	servers [len(plan.Audiences)]server
	socket  socket // nil: closed
	local   bool   // the address is added to the plane's Locals
	err     error  // why the socket could not be opened
}

// server is a virtual server with the pool of its backends.
type server struct {
	planned *plan.VirtualServer // nil: deleted
	pool    *backends.Pool      // nil: not needed so far, or drained
}

// allows reports whether the source ranges admit a client with any of these addresses.
func (s *server) allows(client []netip.Prefix) bool {
	return !s.planned.Restricted || slices.ContainsFunc(s.planned.Allowed, func(r netip.Prefix) bool {
		return slices.ContainsFunc(client, func(c netip.Prefix) bool { return c.IsSingleIP() && r.Contains(c.Addr()) })
	})
}

func newFrontend(p *Plane, key plan.Frontend) *frontend { return &frontend{plane: p, key: key} }

// change sets the servers by audience, then opens or closes the socket. Servers are removed last,
// so that connections that must move find the new ones.
func (f *frontend) change(servers [len(plan.Audiences)]*plan.VirtualServer, sources plan.Sources) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sources = sources
	for a, v := range servers {
		if v != nil {
			if f.servers[a].pool == nil {
				f.servers[a].pool = f.newPool()
			}
			f.servers[a].replace(v)
		}
	}
	for a, v := range servers {
		if v == nil && f.servers[a].pool != nil {
			f.servers[a].replace(nil)
		}
	}
	return f.updateSocket()
}

func (f *frontend) newPool() *backends.Pool {
	return backends.NewPool(backends.Options{
		Drained: func() { f.plane.sweep(f.key) },
		// After a change of the traffic policy, for example, the backend serves another audience.
		InUse: f.serves,
	})
}

// replace replaces the virtual server by another version of it. Nil deletes it.
func (s *server) replace(v *plan.VirtualServer) {
	s.planned = v
	if v == nil {
		s.pool.Replace(nil)
		return
	}
	reals := make([]backends.Real, len(v.Reals))
	for i, r := range v.Reals {
		reals[i] = backends.Real{Addr: r.Addr, Weight: r.Weight}
	}
	s.pool.Replace(&backends.Server{
		Scheduler: v.Scheduler.Proto(), HashPort: v.Flags&plan.HashPort != 0,
		Affinity: v.Affinity, Drain: v.Drain, Backends: reals,
	})
}

// updateSocket opens or closes the socket as the pools require.
func (f *frontend) updateSocket() error {
	planned, wanted := false, false
	for _, s := range f.servers {
		planned = planned || s.planned != nil
		wanted = wanted || s.planned != nil && s.pool.TakesNew()
	}
	if !wanted && f.socket != nil {
		f.closeSocket()
	}
	f.err = nil
	if planned {
		f.err = f.makeLocal()
	}
	if f.err == nil && wanted && f.socket == nil {
		if f.socket, f.err = f.listen(); f.err == nil {
			f.plane.metrics.sockets.Inc()
		}
	}
	return f.err
}

func (f *frontend) closeSocket() {
	f.socket.Close()
	f.socket = nil
	f.plane.metrics.sockets.Dec()
}

func (f *frontend) setSources(s plan.Sources) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sources = s
}

// poolFor returns the pool for a client, or nil if the client is not served.
func (f *frontend) poolFor(client netip.Addr) *backends.Pool {
	f.mu.Lock()
	defer f.mu.Unlock()
	clients := []netip.Prefix{netip.PrefixFrom(client, client.BitLen())}
	audience := plan.External
	switch {
	case client == f.key.Addr.Addr() && f.local: // a program of the node uses the address that it connects to
		audience, clients = plan.Internal, f.sources.Node
	case f.sources.IsInternal(client):
		audience = plan.Internal
	}
	for _, a := range [...]plan.Audience{audience, plan.AnyClient} {
		if s := &f.servers[a]; s.planned != nil {
			if s.allows(clients) {
				return s.pool
			}
			return nil
		}
	}
	return nil
}

// serves reports whether a backend is in use for any audience.
func (f *frontend) serves(addr netip.AddrPort) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.servers {
		if s.pool != nil && s.pool.Has(addr) {
			return true
		}
	}
	return false
}

func (f *frontend) programmed(a plan.Audience) *plan.VirtualServer {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil
	}
	return f.servers[a].planned
}

func (f *frontend) connections(a plan.Audience) map[netip.AddrPort]uint32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.servers[a].pool == nil {
		return nil
	}
	return f.servers[a].pool.Sessions()
}

// unused reports whether the frontend has no servers and no draining connections left. It drops
// the pools that are empty.
func (f *frontend) unused() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, s := range f.servers {
		if s.pool == nil {
			continue
		}
		if !s.pool.Empty() {
			return false
		}
		f.servers[i].pool = nil
	}
	return true
}

func (f *frontend) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.socket != nil {
		f.closeSocket()
	}
	for _, s := range f.servers {
		if s.pool != nil {
			s.pool.Abort()
		}
	}
}
