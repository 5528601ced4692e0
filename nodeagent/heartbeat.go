package nodeagent

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/app"
)

// beat publishes heartbeats: after progress of the syncer, and otherwise at every interval. A
// heartbeat without a listener is not repeated.
func (a *Agent) beat(ctx context.Context) error {
	ticker := time.NewTicker(a.cfg.HeartbeatInterval)
	defer ticker.Stop()
	for {
		err := changes.PublishHeartbeat(a.nats, a.cfg.NATSPrefix, a.heartbeat())
		if err != nil && !errors.Is(err, changes.ErrDisconnected) && ctx.Err() == nil {
			a.log.Debug("heartbeat", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-a.syncer.progress:
			// Bounds the rate of heartbeats for progress.
			if !app.Pause(ctx, min(a.cfg.HeartbeatInterval/10, 50*time.Millisecond)) {
				return nil
			}
		}
	}
}

func (a *Agent) heartbeat() *nodeagentv1.Heartbeat {
	st := a.syncer.standing()
	return &nodeagentv1.Heartbeat{
		Node: a.name, AppliedRevision: st.applied, ProxyMode: a.plane.Name(), Address: a.node.agentAddress(),
		Time: timestamppb.Now(), Version: version(), FailingSteps: uint32(st.failures),
		IntervalSeconds: a.cfg.HeartbeatInterval.Seconds(), Synced: a.follower.Synced(),
		FailingServices: st.services, MoreFailingServices: uint32(st.more), NodeFailure: st.node,
	}
}
