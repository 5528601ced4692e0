package server

import (
	"net/netip"
	"sync"
)

// connLimit bounds the number of connections, in total and per client, see [clientOf].
type connLimit struct {
	max, perClient int

	mu      sync.Mutex
	open    int
	refused uint64
	clients map[netip.Prefix]int
}

func newConnLimit(total, perClient int) *connLimit {
	return &connLimit{max: total, perClient: perClient, clients: map[netip.Prefix]int{}}
}

func (l *connLimit) add(client netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.max || l.clients[client] >= l.perClient {
		l.refused++
		return false
	}
	l.open++
	l.clients[client]++
	return true
}

func (l *connLimit) remove(client netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.clients[client]--; l.clients[client] == 0 {
		delete(l.clients, client)
	}
}

func (l *connLimit) counts() (open int, refused uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open, l.refused
}
