package changes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/nats-io/nats.go"
)

// natsLink is a follower's connection to NATS. Without NATS its channels are nil.
type natsLink struct {
	log *slog.Logger
	nc  *nats.Conn
	sub *nats.Subscription
	// messages is the bounded queue between NATS and the follower. The client library never waits
	// for room: it drops the messages that do not fit.
	messages chan *nats.Msg
	// status receives changes of the connection's status. Reading the status from the connection
	// would block while the library dials.
	status chan nats.Status
}

// connect subscribes to the changes. It is called before the snapshot is read, so that no change is
// missed between the two.
func (f *Follower) connect(ctx context.Context) (*natsLink, error) {
	l := &natsLink{log: f.cfg.Log, nc: f.cfg.NATS}
	if l.nc == nil {
		return l, nil
	}
	l.messages = make(chan *nats.Msg, f.cfg.Queue)
	sub, err := l.nc.ChanSubscribe(f.subjects.Followed(), l.messages)
	if err != nil {
		return nil, fmt.Errorf("subscribe to changes: %w", err)
	}
	l.sub = sub
	l.status = l.nc.StatusChanged(nats.CONNECTED, nats.RECONNECTING, nats.DISCONNECTED, nats.CLOSED)
	if f.connected = l.nc.IsConnected(); f.connected {
		ctx, cancel := context.WithTimeout(ctx, f.cfg.CallTimeout)
		defer cancel()
		if err := l.nc.FlushWithContext(ctx); err != nil {
			// The follower finds and reads the missed changes later.
			l.log.Debug("subscription not confirmed yet", "err", err)
		}
	}
	return l, nil
}

func (l *natsLink) close() {
	if l.nc == nil {
		return
	}
	l.nc.RemoveStatusListener(l.status)
	if err := l.sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		l.log.Debug("unsubscribe", "err", err)
	}
}
