package changes

import (
	"fmt"

	"github.com/nats-io/nats.go"

	nodeagentv1 "portolan.dev/proto/portolan/nodeagent/v1"
)

// ErrDisconnected is the error of telling something while NATS is away.
var ErrDisconnected = nats.ErrDisconnected

// PublishHeartbeat tells whoever listens how a node is. It is told and forgotten: while NATS is away nothing is kept to be sent later.
func PublishHeartbeat(nc *nats.Conn, prefix string, beat *nodeagentv1.Heartbeat) error {
	names, err := newSubjects(prefix)
	if err != nil {
		return err
	}
	if !nc.IsConnected() {
		return ErrDisconnected
	}
	payload, err := beat.MarshalVT()
	if err != nil {
		return fmt.Errorf("encode heartbeat: %w", err)
	}
	return nc.Publish(names.heartbeat(beat.GetNode()), payload)
}

// SubscribeHeartbeats calls fn with every heartbeat, one at a time, until stop is called. A node may speak on its own subject only, which is
// what permissions can be given for; heartbeats that name another node are dropped.
func SubscribeHeartbeats(nc *nats.Conn, prefix string, fn func(*nodeagentv1.Heartbeat)) (stop func() error, err error) {
	names, err := newSubjects(prefix)
	if err != nil {
		return nil, err
	}
	sub, err := nc.Subscribe(names.heartbeats(), func(m *nats.Msg) {
		beat := &nodeagentv1.Heartbeat{}
		if beat.UnmarshalVT(m.Data) != nil || m.Subject != names.heartbeat(beat.GetNode()) {
			return
		}
		fn(beat)
	})
	if err != nil {
		return nil, fmt.Errorf("subscribe to heartbeats: %w", err)
	}
	return sub.Unsubscribe, nil
}
