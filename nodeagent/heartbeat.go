package nodeagent

import (
	nodeagentv1 "portolan.dev/api/nodeagent/v1"

	"portolan.dev/nodeagent/internal/nodestatus"
)

// heartbeats returns the publisher of the node's heartbeats.
func (a *Agent) heartbeats() *nodestatus.Publisher {
	return &nodestatus.Publisher{
		Bus: a.nats, Prefix: a.cfg.NATSPrefix, Interval: a.cfg.HeartbeatInterval,
		Progress: a.syncer.Progress(), Heartbeat: a.heartbeat, Log: a.log,
	}
}

func (a *Agent) heartbeat() *nodeagentv1.Heartbeat {
	b := &nodeagentv1.Heartbeat{
		Node: a.name, ProxyMode: a.plane.Name(), Address: a.node.AgentAddress(), Synced: a.follower.Synced(),
	}
	a.syncer.FillHeartbeat(b)
	return b
}
