package nodestatus

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/obs"
)

// Publisher publishes the node's heartbeats.
type Publisher struct {
	Bus      app.Bus
	Prefix   string // of the subjects on NATS
	Interval time.Duration
	// Progress receives a token when the next heartbeat has news.
	Progress <-chan struct{}
	// Heartbeat returns the present heartbeat. Publisher adds the time, the interval and the
	// version.
	Heartbeat func() *nodeagentv1.Heartbeat
	Log       *slog.Logger
}

// Run publishes heartbeats until ctx is done: after progress, and otherwise at every interval. A
// heartbeat without a listener is not repeated.
func (p *Publisher) Run(ctx context.Context) error {
	ticker := time.NewTicker(p.Interval)
	defer ticker.Stop()
	for {
		err := changes.PublishHeartbeat(p.Bus, p.Prefix, p.heartbeat())
		if err != nil && !errors.Is(err, changes.ErrDisconnected) && ctx.Err() == nil {
			p.Log.Debug("heartbeat", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-p.Progress:
			// Bounds the rate of heartbeats for progress.
			if !app.Pause(ctx, min(p.Interval/10, 50*time.Millisecond)) {
				return nil
			}
		}
	}
}

func (p *Publisher) heartbeat() *nodeagentv1.Heartbeat {
	b := p.Heartbeat()
	b.Time, b.IntervalSeconds, b.Version = timestamppb.Now(), p.Interval.Seconds(), obs.Release()
	return b
}
