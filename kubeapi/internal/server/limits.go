package server

import (
	"context"
	"fmt"
	"sync"
	"time"

	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/identity"
)

// watchLimits limits the open watches, of all identities together and of each one.
type watchLimits struct {
	inAll, perIdentity int

	mu   sync.Mutex
	open int
	of   map[identity.ID]int // identities without open watches are absent
}

func newWatchLimits(inAll, perIdentity int) *watchLimits {
	return &watchLimits{inAll: inAll, perIdentity: perIdentity, of: map[identity.ID]int{}}
}

// retryWatch is the time after which a client should try to watch again.
const retryWatch = 10 * time.Second

// acquire counts a watch of the client of ctx until release is called. Without TLS clients have no
// identities, and only the limit of all watches applies.
func (l *watchLimits) acquire(ctx context.Context) (release func(), err error) {
	id, identityErr := identity.Caller(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if identityErr == nil && l.of[id] >= l.perIdentity {
		return nil, apierr.Throttled("max-watches-per-identity", fmt.Sprintf("%s has %d watches open at this server, which is the limit for one identity", id.Path(), l.perIdentity), retryWatch)
	}
	if l.open >= l.inAll {
		return nil, apierr.Throttled("max-watches", fmt.Sprintf("%d watches are open at this server, which is its limit", l.inAll), retryWatch)
	}
	l.open++
	l.of[id]++
	return func() { l.release(id) }, nil
}

func (l *watchLimits) release(id identity.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.of[id]--; l.of[id] == 0 {
		delete(l.of, id)
	}
}

func (l *watchLimits) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}
