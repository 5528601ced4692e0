package app

import (
	"context"
	"log/slog"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/services/kit/audit"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/kit/token"
	"portolan.dev/services/kit/tracing"
)

// Host has the logger, the metrics and the credentials that a daemon receives from its process. Each
// daemon has its own Host, even if several daemons share a process.
type Host struct {
	Log     *slog.Logger
	Metrics *prometheus.Registry
	Health  *health.Registry
	Network rpc.Network
	// Guard catches panics of work for one object. Daemons that follow the registry need it.
	Guard *guard.Guard
	// Tracer starts and continues traces. If it is nil, nothing is traced.
	Tracer *tracing.Tracer
	// Audit is the daemon's audit log. If it is nil, nothing is recorded.
	Audit *audit.Log
	// Identity is the daemon's certificate. If it is nil, connections are not encrypted.
	Identity *identity.Source
	// Token is the secret that clients over TCP have to send if there is no Identity. If both are
	// nil, every client may make every call.
	Token *token.Token
	// NATS opens a connection with a name that is shown in the server's monitoring. It may return
	// before the connection is established; the connection is established, and re-established, in
	// the background. The caller closes it.
	NATS func(name string) (Bus, error)
}

// Bus is a connection to the message bus. A daemon passes it to services/changes, the only package
// that uses its methods, and closes it.
type Bus = *nats.Conn

// Daemon runs until its context is done.
type Daemon interface {
	Run(ctx context.Context) error
}
