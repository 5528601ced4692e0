package changes

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/obs"
)

// relayState reports whether the stream is fed: in the log, and as a warning of the daemon's health. It is
// a warning because a registry without the stream still serves everything, and followers read its log. The
// log has a line of its own for a reason that an operator must remove, also during an outage.
type relayState struct {
	health       *health.Registry // may be nil
	refused      prometheus.Gauge
	away, refuse obs.Outage
}

func newRelayState(cfg RelayConfig, refused prometheus.Gauge) *relayState {
	const up = "change stream is fed again"
	return &relayState{
		health: cfg.Health, refused: refused,
		away:   obs.Outage{Log: cfg.Logger, Down: "change stream cannot be fed", Up: up},
		refuse: obs.Outage{Log: cfg.Logger, Down: "change stream is left alone", Up: up},
	}
}

// failed records a round that ended with an error.
func (s *relayState) failed(err error) {
	if _, refused := errors.AsType[*refusedError](err); refused {
		s.refuse.Failed(err)
		s.refused.Set(1)
	} else {
		s.away.Failed(err)
	}
	s.warn(err)
}

// fed records a round without an error.
func (s *relayState) fed(last uint64) {
	s.refuse.Over("last", last)
	s.away.Over("last", last)
	s.refused.Set(0)
	s.warn(nil)
}

func (s *relayState) warn(err error) {
	if s.health != nil {
		s.health.Warn(HealthRelay, err)
	}
}
