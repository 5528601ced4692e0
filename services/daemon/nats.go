package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"portolan.dev/services/changes"
	"portolan.dev/services/kit/identity"
)

// NATS returns a function that connects as this daemon, for a host: by mutual
// TLS where it has an identity, which may be nil. The connection never gives up,
// also when no server answered yet, or one that does not let us in. Nothing is
// buffered while there is none: what matters is sent again from the log, and a
// heartbeat that arrives late is a lie. Inboxes are private, so that a server can
// be told who may read which. Options in extra win.
func NATS(name string, common Common, log *slog.Logger, source *identity.Source, extra ...nats.Option) func(string) (*nats.Conn, error) {
	return func(conn string) (*nats.Conn, error) {
		log := log.With("connection", conn)
		opts := append(natsOptions(&natsLog{log: log, identity: source}),
			nats.Name("portolan "+name+" "+conn),
			nats.CustomInboxPrefix(changes.Inbox(common.NATSPrefix, name)))
		if source != nil {
			opts = append(opts, nats.Secure(source.TLS(identity.NATS)))
		}
		nc, err := nats.Connect(common.NATSURL, append(opts, extra...)...)
		if err != nil {
			return nil, fmt.Errorf("connect to nats: %w", err)
		}
		return nc, nil
	}
}

func natsOptions(log *natsLog) []nats.Option {
	return []nats.Option{
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // what the server knows of us may change while we wait
		nats.ReconnectWait(time.Second),
		nats.ReconnectBufSize(-1),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // nil is our own Close
				log.log.Warn("nats disconnected", "err", err)
			}
		}),
		nats.ConnectHandler(log.connected),
		nats.ReconnectHandler(log.connected),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { log.failed(err) }),
		nats.ErrorHandler(log.asynchronous),
	}
}

// natsLog tells of a connection, of each trouble once.
type natsLog struct {
	log      *slog.Logger
	identity *identity.Source

	mu   sync.Mutex
	last string // guarded by mu: the trouble that was told
}

func (l *natsLog) connected(nc *nats.Conn) {
	l.mu.Lock()
	l.last = ""
	l.mu.Unlock()
	l.log.Info("nats connected", "server", nc.ConnectedUrlRedacted())
}

// failed tells why there is no connection, which is tried again all the time.
func (l *natsLog) failed(err error) {
	err = l.explain(err)
	l.mu.Lock()
	again := l.last == err.Error()
	l.last = err.Error()
	l.mu.Unlock()
	if !again {
		l.log.Warn("nats not connected, trying on", "err", err)
	}
}

func (l *natsLog) asynchronous(_ *nats.Conn, sub *nats.Subscription, err error) {
	if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) {
		l.failed(err)
		return
	}
	subject := ""
	if sub != nil {
		subject = sub.Subject
	}
	l.log.Error("nats", "subject", subject, "err", l.explain(err))
}

// explain says what to do about an error, where that is known.
func (l *natsLog) explain(err error) error {
	who := "we are nobody to it: give this daemon tls-cert, tls-key and tls-ca"
	if l.identity != nil {
		err = l.identity.Explain(err)
		who = fmt.Sprintf("this is %s: give the server what portolan certs nats-config prints", l.identity.ID())
	}
	switch {
	case errors.Is(err, nats.ErrSecureConnWanted):
		return errors.New("the NATS server does not speak TLS: give it what portolan certs nats-config prints")
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrPermissionViolation):
		return fmt.Errorf("%w; %s", err, who)
	}
	return err
}
