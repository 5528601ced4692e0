package server

import (
	"net/netip"
	"sync"
)

// pendingLimit shares the places for questions that wait for upstream servers among the clients. A
// client may have as many waiting questions as there are free places. One greedy client therefore
// leaves half of the places to the others, and n greedy clients leave one of n+1 parts. A fixed
// bound per client would either be too small for a client that is alone, such as another name
// server, or let a few clients take all places.
type pendingLimit struct {
	max int

	mu      sync.Mutex
	waiting int
	clients map[netip.Prefix]int // waiting questions by client; never more entries than max
}

func newPendingLimit(total int) *pendingLimit {
	return &pendingLimit{max: total, clients: map[netip.Prefix]int{}}
}

// Reasons for which a question is dropped, as indexes of counters.
const (
	byClient = iota // the client has as many waiting questions as there are free places
	byServer        // there is no free place
	dropReasons
)

var dropReasonNames = [dropReasons]string{"client", "server"}

// add takes a place for a client. If the client gets none, add returns false and the reason.
func (l *pendingLimit) add(client netip.Prefix) (reason int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	free := l.max - l.waiting
	switch {
	case free == 0:
		return byServer, false
	case l.clients[client] >= free:
		return byClient, false
	}
	l.waiting++
	l.clients[client]++
	return 0, true
}

func (l *pendingLimit) remove(client netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting--
	if l.clients[client]--; l.clients[client] == 0 {
		delete(l.clients, client)
	}
}

func (l *pendingLimit) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting
}

// clientOf returns the addresses that count as one client: an IPv4 address, or a network of IPv6
// with a prefix of 64 bits, of which a machine can use every address.
func clientOf(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(addr, bits).Masked()
}

// pendingQueries counts the questions of one server loop that wait for upstream servers.
type pendingQueries struct{ wg sync.WaitGroup }

// startPending runs fn beside the loop. It returns false, and counts the question as dropped, if
// the client or the server has too many waiting questions.
func (s *Server) startPending(w *workerStats, pending *pendingQueries, addr netip.Addr, fn func()) bool {
	client := clientOf(addr)
	reason, ok := s.pending.add(client)
	if !ok {
		w.dropped[reason].Add(1)
		return false
	}
	pending.wg.Go(func() {
		defer s.pending.remove(client)
		fn()
	})
	return true
}
