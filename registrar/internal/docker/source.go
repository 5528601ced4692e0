package docker

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"portolan.dev/registrar/source"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/obs"
)

// Options are the options of the source.
type Options struct {
	// Socket is the path of the engine's unix socket.
	Socket string
	// NodeAddresses are the addresses of this node for published ports. The first address of each family is
	// used. Empty: workloads with published ports have no addresses, which means the node's.
	NodeAddresses []netip.Addr
	// ComposeNames makes the names of Compose's service and project the defaults of the labels service and
	// namespace. Without it, containers of Compose need labels like all others.
	ComposeNames bool
	// NoServiceVariables ignores registrator's variables, such as SERVICE_NAME.
	NoServiceVariables bool
	// Network is the default of the label network for containers in several networks. Empty: such
	// containers need the label.
	Network string
	// Relist is the time between two complete lists. Required.
	Relist  time.Duration
	Log     *slog.Logger          // required
	Metrics prometheus.Registerer // required
}

// pace is the timing of the source.
type pace struct {
	answer       time.Duration // limit of one request
	ping         time.Duration // interval of pings
	retry        time.Duration // before the next list, if the engine did not answer about a container
	first, pause time.Duration // the shortest and the longest pause before an attempt to connect
}

var defaultPace = pace{answer: 10 * time.Second, ping: 5 * time.Second, retry: 30 * time.Second, first: 250 * time.Millisecond, pause: 15 * time.Second}

// Source reports the containers of a Docker engine. It implements source.Source.
type Source struct {
	options Options
	pace    pace
	metrics *metrics
	outage  obs.Outage
}

// New returns a source.
func New(options Options) *Source {
	return &Source{
		options: options, pace: defaultPace, metrics: newMetrics(options.Metrics),
		outage: obs.Outage{Log: options.Log, Down: "the Docker engine cannot be asked; its workloads stay as they were", Up: "the Docker engine answers again"},
	}
}

// Name implements source.Source.
func (s *Source) Name() string { return "docker" }

// Run implements source.Source. It never returns an error, because an engine may be installed, started or
// updated at any time.
func (s *Source) Run(ctx context.Context, report func(source.Report)) error {
	w := &watcher{source: s, report: report, signals: signals{}}
	pause := s.pace.first
	for {
		began := time.Now()
		err := w.connected(ctx)
		if ctx.Err() != nil {
			return nil
		}
		s.outage.Failed(err)
		w.lost(err)
		if time.Since(began) > s.pace.pause {
			pause = s.pace.first
		}
		if !app.Pause(ctx, pause) {
			return nil
		}
		pause = min(2*pause, s.pace.pause)
	}
}
