package app

import (
	"context"
	"log/slog"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/kit/tracing"
)

// Host is what a daemon is given from outside. Each daemon has one of its own,
// also where several share a process.
type Host struct {
	Log     *slog.Logger
	Metrics *prometheus.Registry
	Health  *health.Registry
	Network rpc.Network
	// Tracer is how traces enter the daemon; nil: there are none.
	Tracer *tracing.Tracer
	// Identity is who the daemon is to others; nil: it speaks in the clear.
	Identity *identity.Source
	// NATS opens a connection, named for those who watch the server. It may
	// return before there is one: it connects, and reconnects, by itself. The
	// caller closes it.
	NATS func(name string) (Bus, error)
}

// Bus is a connection to the message bus. A daemon passes it on to
// services/changes, which alone looks inside, and closes it.
type Bus = *nats.Conn

// Daemon is what runs until its context is done.
type Daemon interface {
	Run(ctx context.Context) error
}
