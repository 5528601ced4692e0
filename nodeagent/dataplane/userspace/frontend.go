package userspace

import (
	"errors"
	"net/netip"
	"sync"

	"portolan.dev/nodeagent/plan"
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
	pools   [len(plan.Audiences)]*pool
	socket  socket // nil: closed
	err     error  // why the socket could not be opened
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
			if f.pools[a] == nil {
				f.pools[a] = newPool(f)
			}
			f.pools[a].replace(v)
		}
	}
	for a, v := range servers {
		if v == nil && f.pools[a] != nil {
			f.pools[a].replace(nil)
		}
	}
	return f.updateSocket()
}

// updateSocket opens or closes the socket as the pools require.
func (f *frontend) updateSocket() error {
	wanted := false
	for _, p := range f.pools {
		wanted = wanted || p != nil && p.usable()
	}
	switch {
	case !wanted && f.socket != nil:
		f.socket.Close()
		f.socket = nil
		f.plane.metrics.sockets.Dec()
	case wanted && f.socket == nil:
		f.socket, f.err = f.listen()
		if f.err == nil {
			f.plane.metrics.sockets.Inc()
		}
		return f.err
	}
	f.err = nil
	return nil
}

func (f *frontend) setSources(s plan.Sources) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sources = s
}

// poolFor returns the pool for a client, or nil if the client is not served.
func (f *frontend) poolFor(client netip.Addr) *pool {
	f.mu.Lock()
	defer f.mu.Unlock()
	audience := plan.External
	if f.sources.IsInternal(client) {
		audience = plan.Internal
	}
	for _, a := range [...]plan.Audience{audience, plan.AnyClient} {
		if p := f.pools[a]; p != nil && p.live() {
			if p.allows(client) {
				return p
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
	for _, p := range f.pools {
		if p != nil && p.has(addr) {
			return true
		}
	}
	return false
}

func (f *frontend) programmed(a plan.Audience) *plan.VirtualServer {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pools[a] == nil || f.err != nil {
		return nil
	}
	return f.pools[a].current()
}

func (f *frontend) connections(a plan.Audience) map[netip.AddrPort]uint32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pools[a] == nil {
		return nil
	}
	return f.pools[a].counts()
}

// unused reports whether the frontend has no servers and no draining connections left. It drops
// the pools that are empty.
func (f *frontend) unused() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, p := range f.pools {
		if p == nil {
			continue
		}
		if !p.empty() {
			return false
		}
		f.pools[i] = nil
	}
	return true
}

func (f *frontend) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.socket != nil {
		f.socket.Close()
		f.socket = nil
		f.plane.metrics.sockets.Dec()
	}
	for _, p := range f.pools {
		if p != nil {
			p.abort()
		}
	}
}
