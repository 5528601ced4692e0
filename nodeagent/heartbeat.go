package nodeagent

import (
	nodeagentv1 "portolan.dev/api/nodeagent/v1"

	"portolan.dev/nodeagent/internal/nodestatus"
)

// heartbeats returns the publisher of the node's heartbeats.
func (d *Daemon) heartbeats() *nodestatus.Publisher {
	return &nodestatus.Publisher{
		Bus: d.nats, Prefix: d.cfg.NATSPrefix, Interval: d.cfg.HeartbeatInterval,
		Progress: d.syncer.Progress(), Heartbeat: d.heartbeat, Log: d.log,
	}
}

func (d *Daemon) heartbeat() *nodeagentv1.Heartbeat {
	b := &nodeagentv1.Heartbeat{
		Node: d.name, ProxyMode: d.plane.Name(), Address: d.node.AgentAddress(), Synced: d.follower.Synced(),
	}
	d.syncer.FillHeartbeat(b)
	return b
}
