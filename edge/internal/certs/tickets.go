package certs

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// ticketLife is the longest time for which clients can resume a session by its ticket.
	ticketLife = 24 * time.Hour
	// ticketKeys is the number of keys that are accepted. The newest key is used for new tickets.
	ticketKeys = 3
)

// tickets are the keys of the session tickets of all services.
type tickets struct {
	generation atomic.Uint64

	mu   sync.Mutex
	keys [][sha256.Size]byte // the newest first
}

// rotate adds a key, and forgets the oldest one.
func (t *tickets) rotate() {
	t.mu.Lock()
	defer t.mu.Unlock()
	var key [sha256.Size]byte
	_, _ = rand.Read(key[:]) // it never fails
	t.keys = append([][sha256.Size]byte{key}, t.keys...)
	t.keys = t.keys[:min(len(t.keys), ticketKeys)]
	t.generation.Add(1)
}

// keysOf returns the keys of one owner's tickets, and their generation.
func (t *tickets) keysOf(owner string) ([][sha256.Size]byte, uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	derived := make([][sha256.Size]byte, len(t.keys))
	for i := range t.keys {
		mac := hmac.New(sha256.New, t.keys[i][:])
		mac.Write([]byte(owner))
		mac.Sum(derived[i][:0])
	}
	return derived, t.generation.Load()
}
