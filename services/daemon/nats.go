package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"portolan.dev/services/changes"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/obs"
)

// NATS returns a function that opens a connection to NATS for this daemon. The function's argument
// names the connection. The connection uses mutual TLS if source is not nil. It reconnects for
// ever, also if no server was reachable at first or if a server refuses the daemon. Nothing is
// buffered while it is disconnected, because changes are sent again from the log, and a late
// heartbeat would report an outdated state. Each daemon has its own prefix of inboxes, so that a
// server can restrict the readers of each inbox. Options in extra take precedence.
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
			text, _ := config.Redact(err.Error()) // a URL that cannot be parsed is in the error
			return nil, errors.New("connect to nats: " + text)
		}
		return nc, nil
	}
}

func natsOptions(log *natsLog) []nats.Option {
	return []nats.Option{
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // the server's permissions for us may change meanwhile
		nats.ReconnectWait(time.Second),
		nats.ReconnectBufSize(-1),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // nil after our own Close
				log.failed(err)
			}
		}),
		nats.ConnectHandler(log.connected),
		nats.ReconnectHandler(log.connected),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { log.failed(err) }),
		nats.ErrorHandler(log.asynchronous),
	}
}

// natsLog logs the state of a connection. Of an outage it logs the beginning and the end. It logs a
// refusal by the server separately, even during an outage, because a refusal needs the operator's
// attention.
type natsLog struct {
	log      *slog.Logger
	identity *identity.Source

	away, refused obs.Outage
}

func newNATSLog(log *slog.Logger, source *identity.Source) *natsLog {
	return &natsLog{
		log: log, identity: source,
		away:    obs.Outage{Log: log, Down: "nats not connected, still trying", Up: "nats connected"},
		refused: obs.Outage{Log: log, Down: "nats not connected, still trying", Up: "nats connected"},
	}
}

func (l *natsLog) connected(nc *nats.Conn) {
	server := []any{"server", nc.ConnectedUrlRedacted()}
	refused, away := l.refused.Over(server...), l.away.Over(server...)
	if !refused && !away {
		l.log.Info("nats connected", server...)
	}
}

// failed records a failed attempt to connect. The library retries by itself.
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

// explain adds the remedy to an error, and reports whether the remedy is known.
func (l *natsLog) explain(err error) (error, bool) {
	remedy := "the server requires a certificate: set tls-cert, tls-key and tls-ca"
	explained := false
	if l.identity != nil {
		before := err.Error()
		err = l.identity.Explain(err)
		explained = err.Error() != before
		remedy = fmt.Sprintf("this is %s: give the server what portolan certs nats-config prints", l.identity.ID())
	}
	switch {
	case errors.Is(err, nats.ErrSecureConnWanted):
		return errors.New("the NATS server does not speak TLS: give it what portolan certs nats-config prints"), true
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrPermissionViolation):
		return fmt.Errorf("%w; %s", err, remedy), true
	}
	return err, explained
}
