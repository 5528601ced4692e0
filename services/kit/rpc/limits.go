package rpc

import (
	"context"
	"fmt"
	"net/netip"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/peer"

	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/identity"
)

// streamLimits counts the open streams of a server, in all and of each client, and refuses streams beyond
// its limits, because an open stream holds messages that its client has not read yet.
type streamLimits struct {
	inAll, perIdentity int
	refused            *prometheus.CounterVec // by limit

	mu   sync.Mutex
	open int
	of   map[client]int // clients without open streams are absent
}

// client is the owner of streams: an identity, and the address that it connects from if several
// machines share the identity.
type client struct {
	id   identity.ID
	addr netip.Addr
}

// clientOf returns the client of a call. An ID of a role of a node belongs to one machine, so the client
// is the ID without the address. A thief of such a certificate cannot exceed the limit by connecting from
// many addresses.
func clientOf(ctx context.Context) (c client, identified bool) {
	id, err := identity.Caller(ctx)
	if err != nil {
		return client{}, false
	}
	if id.Role.OfNode() {
		return client{id: id}, true
	}
	if p, ok := peer.FromContext(ctx); ok {
		if addr, ok := ipOf(p.Addr); ok {
			return client{id: id, addr: addr}, true
		}
	}
	return client{id: id}, true
}

func newStreamLimits(inAll, perIdentity int, refused *prometheus.CounterVec) *streamLimits {
	return &streamLimits{inAll: inAll, perIdentity: perIdentity, refused: refused, of: map[client]int{}}
}

// acquire counts the stream of ctx until release is called, or returns an error that names the
// limit that is reached. Without an identity only the limit in all applies.
func (l *streamLimits) acquire(ctx context.Context) (release func(), err error) {
	c, identified := clientOf(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if identified && l.of[c] >= l.perIdentity {
		l.refused.WithLabelValues("identity").Inc()
		return nil, apierr.Exhausted("MaxStreamsPerIdentity", fmt.Sprintf(
			"%s has %d streams open at this server, which is the limit for one identity: close some first", c.id, l.perIdentity))
	}
	if l.open >= l.inAll {
		l.refused.WithLabelValues("server").Inc()
		return nil, apierr.Exhausted("MaxStreams", fmt.Sprintf(
			"%d streams are open at this server, which is its limit: use another replica, or try again later", l.inAll))
	}
	l.open++
	if identified {
		l.of[c]++
	}
	return func() { l.release(c, identified) }, nil
}

func (l *streamLimits) release(c client, identified bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if !identified {
		return
	}
	if l.of[c]--; l.of[c] == 0 {
		delete(l.of, c)
	}
}
