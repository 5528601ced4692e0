package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"portolan.dev/services/changes"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/obs"
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
		opts := append(natsOptions(newNATSLog(log, source)),
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
				log.failed(err)
			}
		}),
		nats.ConnectHandler(log.connected),
		nats.ReconnectHandler(log.connected),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { log.failed(err) }),
		nats.ErrorHandler(log.asynchronous),
	}
}

// natsLog tells of a connection. Of an outage it tells the beginning and the end,
// and once that a server does not let us in: then there is something to do, also
// where the outage began with a server that was away.
type natsLog struct {
	log      *slog.Logger
	identity *identity.Source

	away, refused obs.Outage
}

func newNATSLog(log *slog.Logger, source *identity.Source) *natsLog {
	return &natsLog{
		log: log, identity: source,
		away:    obs.Outage{Log: log, Down: "nats not connected, trying on", Up: "nats connected"},
		refused: obs.Outage{Log: log, Down: "nats not connected, trying on", Up: "nats connected"},
	}
}

func (l *natsLog) connected(nc *nats.Conn) {
	server := []any{"server", nc.ConnectedUrlRedacted()}
	refused, away := l.refused.Over(server...), l.away.Over(server...)
	if !refused && !away {
		l.log.Info("nats connected", server...)
	}
}

// failed counts an attempt that made no connection; the library goes on trying.
func (l *natsLog) failed(err error) {
	if remedied, ok := l.explain(err); ok {
		l.refused.Failed(remedied)
		return
	}
	l.away.Failed(err)
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
	err, _ = l.explain(err)
	l.log.Error("nats", "subject", subject, "err", err)
}

// explain returns an error with what to do about it, and whether that is known.
func (l *natsLog) explain(err error) (error, bool) {
	who := "we are nobody to it: give this daemon tls-cert, tls-key and tls-ca"
	explained := false
	if l.identity != nil {
		before := err.Error()
		err = l.identity.Explain(err)
		explained = err.Error() != before
		who = fmt.Sprintf("this is %s: give the server what portolan certs nats-config prints", l.identity.ID())
	}
	switch {
	case errors.Is(err, nats.ErrSecureConnWanted):
		return errors.New("the NATS server does not speak TLS: give it what portolan certs nats-config prints"), true
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrPermissionViolation):
		return fmt.Errorf("%w; %s", err, who), true
	}
	return err, explained
}
