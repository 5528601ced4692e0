package daemon

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
)

// NATS returns a function that connects as this daemon, for a host. The
// connection never gives up, also when no server answered yet. Nothing is
// buffered while there is none: what matters is sent again from the log, and a
// heartbeat that arrives late is a lie. Inboxes are private, so that a server can
// be told who may read which. Options in extra win.
func NATS(name string, common Common, log *slog.Logger, extra ...nats.Option) func(string) (*nats.Conn, error) {
	return func(conn string) (*nats.Conn, error) {
		log := log.With("connection", conn)
		opts := append(natsOptions(log),
			nats.Name("portolan "+name+" "+conn),
			nats.CustomInboxPrefix("_INBOX_"+common.NATSPrefix+"_"+name))
		nc, err := nats.Connect(common.NATSURL, append(opts, extra...)...)
		if err != nil {
			return nil, fmt.Errorf("connect to nats: %w", err)
		}
		return nc, nil
	}
}

func natsOptions(log *slog.Logger) []nats.Option {
	connected := func(nc *nats.Conn) { log.Info("nats connected", "server", nc.ConnectedUrlRedacted()) }
	return []nats.Option{
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(time.Second),
		nats.ReconnectBufSize(-1),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // nil is our own Close
				log.Warn("nats disconnected", "err", err)
			}
		}),
		nats.ConnectHandler(connected),
		nats.ReconnectHandler(connected),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			subject := ""
			if sub != nil {
				subject = sub.Subject
			}
			log.Error("nats", "subject", subject, "err", err)
		}),
	}
}
