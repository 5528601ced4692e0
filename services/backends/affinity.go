package backends

import (
	"net/netip"
	"time"
)

// maxRememberedClients is the maximum number of clients that a pool remembers.
const maxRememberedClients = 1 << 17

// affinity remembers the backends of clients. The zero value is empty.
type affinity struct {
	clients map[netip.Addr]clientBackend
	sweepAt int // number of clients at which sweep runs
}

type clientBackend struct {
	to    netip.AddrPort
	until time.Time
}

func (a *affinity) get(client netip.Addr, now time.Time) (netip.AddrPort, bool) {
	s, ok := a.clients[client]
	return s.to, ok && now.Before(s.until)
}

func (a *affinity) put(client netip.Addr, to netip.AddrPort, until, now time.Time) {
	if a.clients == nil {
		a.clients = map[netip.Addr]clientBackend{}
	}
	a.clients[client] = clientBackend{to, until}
	if len(a.clients) > max(a.sweepAt, 64) {
		a.sweep(now)
	}
}

// renew restarts a client's affinity if the client still belongs to the backend.
func (a *affinity) renew(client netip.Addr, to netip.AddrPort, until, now time.Time) {
	if s, ok := a.clients[client]; ok && s.to == to {
		a.put(client, to, until, now)
	}
}

// sweep removes expired clients, and arbitrary ones if there are more than maxRememberedClients. It
// runs when the number of clients has doubled, so its cost per connection is constant.
func (a *affinity) sweep(now time.Time) {
	for c, s := range a.clients {
		if !now.Before(s.until) || len(a.clients) > maxRememberedClients {
			delete(a.clients, c)
		}
	}
	a.sweepAt = 2 * len(a.clients)
}
